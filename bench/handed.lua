-- handed.lua N - times an all-reduce over N devices and all hosts, for bench/cluster.sh.
--
-- Prints for each size its bytes, and the least time of many runs in microseconds. The step returns only a thin slice
-- of the result, so that the time includes little more than the all-reduce.

local rille = require "rille"

local ranks = {}
for r = 1, tonumber(arg[1]) do ranks[r] = r - 1 end
local P = rille.placement("cpu", ranks)
for _, shape in ipairs{{32, 32}, {256, 256}, {1024, 512}, {2048, 2048}} do
  local x = rille.ones(shape, {placement = P, sbp = "P"})
  local step = rille.graph(function(t) return t:to_global{sbp = "B"}[{{0, 1}, {0, 1}}] end)
  local least, stop = math.huge, rille.clock() + 1
  step(x)
  repeat
    local begin = rille.clock()
    step(x):item()
    least = math.min(least, rille.clock() - begin)
  until rille.clock() > stop
  print(("%d\t%.0f"):format(4 * shape[1] * shape[2], 1e6 * least))
end
