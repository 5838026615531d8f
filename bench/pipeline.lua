-- pipeline.lua - compares the real time of pipelines whose kernels sleep with the simulated time and with the lower
-- bound for all schedules.
--
--   RILLE_THREADS=8 rille -d cpu:8 bench/pipeline.lua          bench/pipeline.sh runs it beside PyTorch's pipeline
--   KIND=async RILLE_THREADS=2 rille -d async:8 bench/pipeline.lua          on devices whose streams sleep
--
-- A sleeping kernel needs no core, so eight devices work at once on two cores. Forward (F), backward (B) and weight
-- gradients (W) each take SLEEP seconds on every stage. The first stage has a B, too, because its input depends on a
-- parameter. SLEEP and ROUNDS are environment variables. Prints lines "schedule, devices, micro-batches, least of
-- ROUNDS, simulation with measured costs, simulation with SLEEP, bound"; times are in milliseconds.

local rille = require "rille"
local SLEEP <const>, ROUNDS <const> = tonumber(os.getenv("SLEEP")) or 0.01, tonumber(os.getenv("ROUNDS")) or 6
local KIND <const> = os.getenv("KIND") or "cpu"
local WHERE <const> = KIND == "cpu" and "" or ("%s/%s "):format(KIND, os.getenv("RILLE_THREADS"))

-- Creates a pipeline. devices: the device of each stage. skip: the last stage also reads the result of the first
-- stage.
local function pipeline(devices, pieces, schedule, skip)
  local on, weight = {}, {}
  for q, d in ipairs(devices) do
    on[q] = rille.placement(KIND, {d})
    weight[q] = rille.zeros({8, 8}, {placement = on[q], requires_grad = true})
  end
  local shift = rille.zeros({8}, {placement = on[1], requires_grad = true})
  local step = rille.graph(function(x)
    local first
    x = x + shift
    for q = 1, #devices do
      x = (q > 1 and x:to_global{placement = on[q], sbp = "B"} or x):matmul(weight[q]):tanh()
      first = first or x
    end
    if skip then x = x + first:to_global{placement = on[#devices], sbp = "B"} end
    local loss = x:sum()
    loss:backward()
    return loss
  end, {micro_batches = pieces, schedule = schedule})
  return step, rille.zeros({2 * pieces, 8}, {placement = on[1]})
end

local function least(step, x)
  local best = math.huge
  for _ = 1, ROUNDS do
    step(x):item()
    best = math.min(best, step:stats().step_time)
  end
  return best
end

local dealt = dofile("t/lib/steps/dealt.lua")

local cases = {
  {"gpipe", 1}, {"1f1b", 1}, {"1f1b, skip", 1, schedule = "1f1b", skip = true}, {"zb-h1", 1}, {"zb-h2", 1},
  {"interleaved", 2}, {"v-min", 2, back = true}, {"v-half", 2, back = true}, {"zb-v", 2, back = true},
}

rille._slow_op("matmul", SLEEP)
rille._slow_op("contract", SLEEP)
for _, p in ipairs{4, 8} do
  for _, m in ipairs{8, 16} do
    for _, case in ipairs(cases) do
      local step, x = pipeline(dealt(p, case[2], case.back), m, case.schedule or case[1], case.skip)
      step(x):item()
      local time, chart = least(step, x), step:chart()
      local ideal = step:chart{forward = SLEEP, backward = SLEEP, weight = SLEEP}
      local bound = case[2] * m * 3 * SLEEP + (p - 1) * SLEEP
      print(("%s%s\t%d\t%d\t%.1f\t%.1f\t%.1f\t%.1f"):format(WHERE, case[1], p, m, 1e3 * time, 1e3 * chart.planned.time,
        1e3 * ideal.planned.time, 1e3 * bound))
    end
  end
end
