local P = rille.placement("cpu", {0, 1, 2, 3})
local x = rille.rand({4 * 31, 77}, {placement = P, sbp = "S(0)"})
local want = x:sum():item()
rille.snapshot{1}
for _, rank in ipairs{2, 0} do
  local first, second = rille.workers()[rank + 1].pid, rille.workers()[rank + 2].pid
  os.execute("kill -9 " .. first)
  local good, err = pcall(function() while true do (x * 2):sum():item() end end)
  assert(not good and rille.is_lost(err) and err:find("worker " .. rank), err)
  os.execute("kill -STOP " .. second)
  io.write(rille.recover()[1], " ", tostring(x:sum():item() == want), " ")
  for _, w in ipairs(rille.workers()) do assert(w.pid ~= first and w.pid ~= second) end
end
