-- step.lua - times the digits training step (perceptron 64-256-256-10, batch 64, AdamW) on one device and on four: in
-- total, and by purpose of the tasks.
--
--   rille -d cpu:4 bench/step.lua          bench/step.sh runs it beside the peers
--   RILLE_THREADS=1 rille -d cpu:4 bench/step.lua own     compiled steps alone, by processor time
--   rille launch -n 2 -d cpu:1 bench/step.lua 2      on two worker processes (bench/cluster.sh)
--
-- A timed step is the call of the step and a read of its loss. Prints lines "name, layout, least, median":
-- microseconds, over ROUNDS rounds of STEPS steps. Then prints, for each compiled step, how much time a thread spends
-- on each purpose, as recorded by step:trace(), averaged over the threads.

local rille = require "rille"
local nn, optim = rille.nn, rille.optim
local OWN <const> = arg[1] == "own"
local ROUNDS, STEPS, TRACED = OWN and 80 or 15, OWN and 15 or 60, 20
local clock = OWN and os.clock or rille.clock

local ranks = {}
for rank = 0, (tonumber(arg[1]) or 4) - 1 do ranks[#ranks + 1] = rank end
local all = rille.placement("cpu", ranks)
local layouts = {
  --          placement                        batch   weight 1  weight 2
  {"one", rille.placement("cpu", {0}), "B", "B", "B"},
  {"dp", all, "S(0)", "B", "B"},
  {"tp", all, "B", "S(0)", "S(1)"},
}

-- Purpose of a task, by the first operator in the task's name. A task whose operator has no entry counts as
-- element-wise.
local class = {matmul = "products", contract = "products", adamw = "AdamW", copy = "moves", exchange = "moves",
  ["all-reduce"] = "moves", ["reduce-scatter"] = "moves", ["all-gather"] = "moves", ["all-to-all"] = "moves",
  slice = "moves", broadcast = "moves", fill = "moves", permute = "moves"}
local classes = {"products", "AdamW", "element-wise", "moves", "actors, bus, idle"}

local function training(place, batch_sbp, sbp1, sbp2)
  rille.manual_seed(3)
  local fc1, fc2, fc3 = nn.Linear(64, 256), nn.Linear(256, 256), nn.Linear(256, 10)
  local net = nn.Sequential(fc1, nn.GELU(), fc2, nn.GELU(), fc3)
  net:to_global{placement = place, sbp = "B"}
  fc1.weight:to_global_{placement = place, sbp = sbp1}
  fc1.bias:to_global_{placement = place, sbp = sbp1}
  fc2.weight:to_global_{placement = place, sbp = sbp2}
  local opt = optim.AdamW(net:parameters(), {lr = 1e-3, weight_decay = 0.01})
  local labels = {}
  for i = 1, 64 do labels[i] = i * 7 % 10 end
  local how = {placement = place, sbp = batch_sbp}
  local x = rille.randn({64, 64}, how)
  local y = rille.tensor(labels, {dtype = "i64"}):to_global(how)
  local function step(a, b)
    local loss = net(a):cross_entropy(b)
    loss:backward()
    opt:step()
    opt:zero_grad()
    return loss
  end
  return step, x, y
end

-- Returns the least and the median time of a step, in microseconds.
local function measure(step, x, y)
  local times = {}
  for round = 0, ROUNDS do -- the first round warms up
    local start = clock()
    for _ = 1, STEPS do step(x, y):item() end
    times[round] = (clock() - start) / STEPS * 1e6
  end
  table.sort(times)
  return times[1], times[(ROUNDS + 1) // 2]
end

-- Runs some steps, and adds to `sum`, by purpose, the microseconds that one thread spent in the last step.
local function add_trace(step, x, y, sum)
  local path = os.tmpname()
  step:trace(path)
  for _ = 1, 10 do step(x, y):item() end
  step:trace(path)
  local threads, busy = 1, 0
  for line in io.lines(path) do
    local name, dur = line:match('"name":"([^"]+)".*"ph":"X".*"dur":([%d.]+)')
    if name then
      local kind = class[name:match("^[%a%-]+")] or "element-wise"
      sum[kind] = (sum[kind] or 0) + tonumber(dur)
      busy = busy + tonumber(dur)
      threads = math.max(threads, tonumber(line:match('"thread":(%d+)')) + 1)
    end
  end
  os.remove(path)
  sum.threads = threads
  local idle = "actors, bus, idle"
  sum[idle] = (sum[idle] or 0) + step:stats().step_time * 1e6 * threads - busy
end

local breakdown = {}
for _, layout in ipairs(layouts) do
  local name = layout[1]
  local plain, x, y = training(table.unpack(layout, 2))
  local graph = rille.graph(plain)
  print(("Rille, compiled\t%s\t%.0f\t%.0f"):format(name, measure(graph, x, y)))
  if not OWN then
    local sum = {}
    for _ = 1, TRACED do add_trace(graph, x, y, sum) end
    for _, kind in ipairs(classes) do
      breakdown[#breakdown + 1] = ("- %s\t%s\t%.1f"):format(kind, name, (sum[kind] or 0) / TRACED / sum.threads)
    end
    print(("Rille, plain loop\t%s\t%.0f\t%.0f"):format(name, measure(plain, x, y)))
  end
end
if breakdown[1] then print(table.concat(breakdown, "\n")) end
