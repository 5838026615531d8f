local P = rille.placement("cpu", {0, 1})
local x = rille.full({2, 1 << 22}, 1, {placement = P, sbp = "S(0)"})
rille.snapshot{0} -- the first is waited for
local last, k, note, why = 0, 0
repeat
  k = k + 1
  rille.snapshot{k}
  os.execute("kill -9 " .. rille.workers()[2].pid)
  assert(not pcall(function() while true do (x * 2):sum():item() end end))
  note, why = rille.recover()
  assert(note[1] == (why and last or k), why)
  last = note[1]
until why or k == 30
print((why:gsub("snapshot %d+", "snapshot K")))
print(select("#", rille.recover()))
