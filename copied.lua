local P = rille.placement("cpu", {0, 1})
math.randomseed(tonumber(arg[1]))
local x = rille.zeros({2, 1 << 22}, {placement = P, sbp = "S(0)"})
local y = rille.ones({2}, {placement = P, sbp = "S(0)"})
x:sum():item()
rille.snapshot{}
print(rille._snapshot())
for k = 1, 6 do
  rille.snapshot{k = k - 1}
  x:copy_(rille.full({2, 1 << 22}, k, {placement = P, sbp = "S(0)"}))
  rille.snapshot{k = k}
  assert(y:sum():item() == 2)
  os.execute(("sleep 0.0%d; kill -9 %d"):format(math.random(0, 9), rille.workers()[2].pid))
  assert(not pcall(function() for _ = 1, 1e5 do y:sum():item() end end))
  local note = rille.recover()
  assert(note.k == k or note.k == k - 1)
  assert(x:max():item() == note.k and x:min():item() == note.k, "bits of another moment")
  x:copy_(rille.full({2, 1 << 22}, k, {placement = P, sbp = "S(0)"}))
end
print "all"
