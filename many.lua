local P = rille.placement("cpu", {0, 9, 17})
local x = rille.ones({3, 8}, {placement = P, sbp = "S(0)"})
rille.snapshot{1}
local function stop(rank)
  os.execute("sleep 1; kill -STOP " .. rille.workers()[rank + 1].pid)
  local good, err = pcall(function() while true do (x * 2):sum():item(); os.execute("sleep 0.1") end end)
  assert(not good and rille.is_lost(err) and err:find("fell silent"), err)
  local lost = {}
  for _, w in ipairs(rille.workers()) do if w.state == "lost" then lost[#lost + 1] = w.rank end end
  rille.recover()
  return table.concat(lost, " ")
end
print(stop(17), stop(9), stop(0), (x * 2):sum():item(), #rille.workers())
