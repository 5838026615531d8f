-- cached.lua - latency of an eager sum over all devices, from the call to its value, with a cached program.
--
--   rille launch -n 2 -d cpu:1 bench/cached.lua 2      bench/cluster.sh runs it over workers and hosts
--
-- The time shows whether a message wakes a sleeping worker at once, or the worker sleeps until its next tick. Prints
-- the median, mean and greatest time of 3,000 runs, in microseconds.
local rille = require "rille"
local ranks = {}
for i = 1, tonumber(arg[1]) do ranks[i] = i - 1 end
local x = rille.ones({16, 8}, {placement = rille.placement("cpu", ranks), sbp = "S(0)"})
local us, total = {}, 0
for round = -100, 3000 do -- rounds below 1 warm up
  local start = rille.clock()
  assert((x * 2):sum():item() == 256)
  us[round] = (rille.clock() - start) * 1e6
  if round > 0 then total = total + us[round] end
end
table.sort(us)
print(("%.0f\t%.0f\t%.0f"):format(us[1500], total / 3000, us[3000]))
