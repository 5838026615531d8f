-- naps.lua - checks that kernels on four devices with streams sleep at the same time, although one thread serves all
-- the devices. The shortest of five runs must take less time than the sum of the sleeps.
--
--   RILLE_THREADS=1 rille -d async:4 t/lib/steps/naps.lua          prints ok, or fails with the measured time

local DEVICES <const>, SLEEP <const> = 4, 0.05
local x, best = {}, math.huge
for d = 1, DEVICES do x[d] = rille.ones({8}, {placement = rille.placement("async", {d - 1})}) end
local step = rille.graph(function(...)
  local y = {...}
  for d = 1, DEVICES do y[d] = y[d]:sin() end
  return table.unpack(y)
end)
rille._slow_op("sin", SLEEP)
for _ = 1, 5 do
  step(table.unpack(x))
  best = math.min(best, step:stats().step_time)
end
rille._slow_op("sin", 0)
local stats, text = step:stats(), nil
local show = rille._show
rille._show = function(_, _, plain) text = plain(200, false) end
step:show()
rille._show = show
assert(stats.ideal <= stats.step_time, ("the ideal time, %g s, is longer than the step, %g s"):format(stats.ideal, stats.step_time))
assert(step:chart().at_once == DEVICES and not text:find("devices share"), "sleeping kernels are shown as sharing a thread")
assert(best < 0.75 * DEVICES * SLEEP, ("%.0f ms of sleep took %.0f ms"):format(1e3 * DEVICES * SLEEP, 1e3 * best))
assert(best > SLEEP, "a step took less time than one sleep")
print("ok")
