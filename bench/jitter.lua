-- jitter.lua - simulates steps whose acts vary in duration: compares dynamic scheduling by credits with a fixed order
-- of acts.
--
--   rille -d cpu:1 bench/jitter.lua
--
-- The fixed order is called a table: the order that the acts of the same plan have without jitter. Credits and table
-- are simulated with the same durations of acts: F = B = W = 1 (interleaved: B = 2, which includes W), changed at
-- random by up to 10 %. In the first rows transfers cost no time. In the other rows each transfer costs the receiving
-- device 10 % of F. With credits it costs this time at arrival; with a table, before the act that reads the data.
--
-- Prints makespans in units of F: first without jitter, then the mean and the worst of SEEDS random draws, by credits
-- and by the table.

local rille = require "rille"
local SEEDS <const>, JITTER <const>, UNIT <const> = 20, 0.1, 1e-3

local dealt, pipeline = dofile("t/lib/steps/dealt.lua"), dofile("t/lib/steps/stages.lua")

local function key(s) return s.stage .. s.what .. s.piece end

local acts <const> = {forward = true, backward = true, weight = true}

-- Returns two values: for each device, the acts of its stages in the order in which they begin; for each act, its
-- duration. An act is one forward, backward or weight gradient of a micro-batch. A schedule with a fixed order runs each
-- act in one go; where the plan divides an act into several spans, the duration is their sum.
local function table_of(chart)
  local spans, order, took = {}, {}, {}
  for _, s in ipairs(chart.planned.spans) do
    if s.piece and acts[s.what] then spans[#spans + 1] = s end
  end
  table.sort(spans, function(a, b) return a.from < b.from end)
  for _, s in ipairs(spans) do
    if not took[key(s)] then
      order[s.device] = order[s.device] or {}
      table.insert(order[s.device], s)
    end
    took[key(s)] = (took[key(s)] or 0) + s.to - s.from
  end
  return order, took
end

-- Returns the makespan of a fixed order of acts. took: duration of each act. An act begins when the previous act of
-- its device has ended and its inputs have arrived.
local function tabled(order, took, devices, hop)
  local done, next_of, free, left, n = {}, {}, {}, 0, #devices
  for d, l in pairs(order) do next_of[d], free[d], left = 1, 0, left + #l end
  -- Returns the time at which stage `from` finishes the act (nil: not finished yet), and how long stage `to` takes to
  -- receive the result.
  local function there(from, what, piece, to)
    return done[from .. what .. piece], devices[from + 1] ~= devices[to + 1] and hop or 0
  end
  local function ready(s)
    local q = s.stage
    if s.what == "forward" then
      if q == 0 then return 0, 0 end
      return there(q - 1, "forward", s.piece, q)
    end
    if s.what == "weight" and q > 0 then return there(q, "backward", s.piece, q) end
    local own = there(q, "forward", s.piece, q)
    if q == n - 1 then return own, 0 end
    local back, cost = there(q + 1, "backward", s.piece, q)
    return own and back and math.max(own, back), cost
  end
  local last = 0
  while left > 0 do
    local before = left
    for d, l in pairs(order) do
      while next_of[d] <= #l do
        local s = l[next_of[d]]
        local from, cost = ready(s)
        if not from then break end
        free[d] = math.max(free[d], from) + cost + took[key(s)]
        done[key(s)], last = free[d], math.max(last, free[d])
        next_of[d], left = next_of[d] + 1, left - 1
      end
    end
    assert(left < before, "a table that does not go on")
  end
  return last
end

local cases = {{"gpipe", 1}, {"1f1b", 1}, {"zb-h1", 1}, {"zb-h2", 1}, {{lag = 2, split_backward = true}, 1, name = "lag 2"},
  {"interleaved", 2, joint = true}, {"v-min", 2}, {"v-half", 2}, {"zb-v", 2}, {{memory = 1.5}, 2, name = "memory 1.5"},
  {{memory = 0.75}, 4, name = "waves 0.75"}, {{memory = 1}, 4, name = "waves 1"}}

print(("%-12s %7s %6s %4s %9s %13s %6s %13s %6s"):format("schedule", "devices", "pieces", "hop", "no jitter", "credits, mean", "worst", "a table, mean", "worst"))
for _, hop in ipairs{0, 0.1} do
  for _, p in ipairs{4, 8} do
    for _, case in ipairs(cases) do
      local m, devices = 2 * p, dealt(p, case[2], not case.joint)
      local costs = {forward = UNIT, backward = case.joint and 2 * UNIT or UNIT, weight = case.joint and 0 or UNIT, move = hop * UNIT}
      local schedule = case[1]
      if schedule.memory then schedule.costs = costs end
      local step = pipeline(devices, m, schedule)
      local still = step:chart(costs)
      local order, as_planned = table_of(still)
      local at_rest = tabled(order, as_planned, devices, hop * UNIT)
      assert(hop > 0 or math.abs(at_rest - still.planned.time) < 1e-6, "without jitter a table takes as long as its plan")
      local mean, worst, table_mean, table_worst = 0, 0, 0, 0
      for seed = 1, SEEDS do
        costs.jitter, costs.seed = JITTER, seed
        local chart = step:chart(costs)
        local _, took = table_of(chart)
        local own, other = chart.planned.time / UNIT, tabled(order, took, devices, hop * UNIT) / UNIT
        mean, worst = mean + own / SEEDS, math.max(worst, own)
        table_mean, table_worst = table_mean + other / SEEDS, math.max(table_worst, other)
      end
      print(("%-12s %7d %6d %4g %9.1f %13.1f %6.1f %13.1f %6.1f"):format(case.name or schedule, p, m, hop, still.planned.time / UNIT, mean, worst,
        table_mean, table_worst))
    end
  end
end
