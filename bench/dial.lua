-- dial.lua - schedule search: compares idle time with published schedules and interleaved schedules, and measures the
-- gain of recomputation.
--
--   rille -d cpu:1 bench/dial.lua
--
-- All times are simulated. In part 1 forward, backward and weight gradients take equal time (F = B = W). Columns:
--
--   p, v, m   devices, stages per device, micro-batches
--   bytes     memory as a share of 1F1B's bytes
--   pieces    memory as micro-batches in flight (from forward to the end of weight gradients)
--   slots     duration of a step in units of F
--   bubble    bubble as a share of 1F1B's
--   bound     lower bound for all schedules, in units of F
--   table     duration of the published schedule, in units of F
--   search    search time, s
--
-- Part 2 has a pipeline of layers with estimated costs. Columns: microseconds of a step with all values kept, with
-- all values recomputed, and with the best mixture.

local rille = require "rille"
local nn = rille.nn
local dealt, pipeline = dofile("t/lib/steps/dealt.lua"), dofile("t/lib/steps/stages.lua")
local APART <const> = {forward = 1, backward = 1, weight = 1}

-- Returns the maximum number of micro-batches that a device has in flight at once.
local function pieces_of(chart)
  local events, now, most = {}, {}, 0
  for _, s in ipairs(chart.planned.spans) do
    if s.what == "forward" then events[#events + 1] = {s.from, 1, s.device} end
    if s.what == "weight" then events[#events + 1] = {s.to, -1, s.device} end
  end
  table.sort(events, function(a, b) return math.abs(a[1] - b[1]) > 1e-9 and a[1] < b[1] or math.abs(a[1] - b[1]) <= 1e-9 and a[2] < b[2] end)
  for _, e in ipairs(events) do
    now[e[3]] = (now[e[3]] or 0) + e[2]
    most = math.max(most, now[e[3]])
  end
  return most
end

local function row(p, v, m, schedule, want)
  local began = os.clock()
  local step = pipeline(dealt(p, v, true), m, schedule)
  local took = os.clock() - began
  local chart = step:chart(APART)
  local work = 3 * v * m
  local bubble_1f1b, slots = 3 * v * (p - 1), chart.planned.time
  print(("%-11s %3d %3d %3d %7.2f %7.2f %7.0f %8.2f %7.0f %7s %7.2f"):format(type(schedule) == "table" and "memory " .. schedule.memory or schedule, p, v, m,
    chart.activations / chart.activations_1f1b, pieces_of(chart) / (p * v), slots, (slots - work) / bubble_1f1b, work + p - 1, want or "", took))
end

print(("%-11s %3s %3s %3s %7s %7s %7s %8s %7s %7s %7s"):format("schedule", "p", "v", "m", "bytes", "pieces", "slots", "bubble", "bound", "table", "search"))
for _, at in ipairs{{4, 8, 59, 53}, {8, 16, 123, 113}, {8, 64, 411, 401}, {16, 32, 251, 233}} do
  local p, m = at[1], at[2]
  row(p, 2, m, "v-min", at[3])
  row(p, 2, m, "v-half", at[4])
  row(p, 2, m, "zb-v", 6 * m + p - 1)
end
for _, memory in ipairs{0.5, 0.62, 0.75, 0.88, 1, 1.2} do row(8, 4, 16, {memory = memory, costs = APART}) end

local function layers(memory, recompute)
  local LAYERS <const>, STAGES <const>, PIECES <const>, WIDTH <const> = 4, 4, 8, 16
  local net, on = {}, {}
  for s = 1, STAGES do
    on[s] = rille.placement("meta", {s - 1})
    for _ = 1, LAYERS do net[#net + 1] = nn.Linear(WIDTH, WIDTH):to_global{placement = on[s], sbp = "B"} end
  end
  local step = rille.graph(function(x)
    for i, layer in ipairs(net) do
      if i > 1 and (i - 1) % LAYERS == 0 then x = x:to_global{placement = on[(i - 1) // LAYERS + 1], sbp = "B"} end
      x = layer(x):gelu()
    end
    x:square():mean():backward()
  end, {micro_batches = PIECES, schedule = {memory = memory}, recompute = recompute})
  step(rille.empty({2 * PIECES, WIDTH}, {placement = on[1]}))
  return step:chart()
end

local base = layers(1, false).activations_1f1b
print(("\n%-11s %10s %10s %10s"):format("bytes", "keep all", "all again", "as is best"))
for _, memory in ipairs{0.3, 0.4, 0.5, 0.75, 1, 2} do
  local cells = {}
  for _, recompute in ipairs{false, true, "auto"} do
    local good, chart = pcall(layers, memory * base > 16 and memory * base or memory, recompute)
    cells[#cells + 1] = good and ("%.1f us"):format(1e6 * chart.planned.time) or "-"
  end
  print(("%-11s %10s %10s %10s"):format(memory, table.unpack(cells)))
end
