-- planner.lua - plans forty training steps in each mode of the planner; prints the cost of a step, and the time of
-- planning.
--
--   rille -d cpu:8 bench/planner.lua [program | "regrets" | "large" | "within" | "deep"]
--
-- Costs are nanoseconds of the cost model: moves, and compute of the busiest rank. The lower bound is proven. The
-- planner keeps the layouts that a program sets, and chooses all others. The column "plan" is the processor time from
-- the call of the step to its plan in mode "optimal", tracing included. Arguments:
--
--   program   plans only this program
--   regrets   time of explain() per program, and the number of candidates whose regret is known only as an interval
--   large     GPT-2 and Llama on simulated devices, and whatif on up to 100,000 devices in meshes of up to six axes
--   within    steps within memory limits
--   deep      stacks of 109 and 543 layers
--
-- bench/predict.lua measures the times of planned steps.
local rille = require "rille"
local nn, optim = rille.nn, rille.optim
local programs, make = dofile("bench/programs.lua")
local modes = {"greedy", "propagate", "recursive", "optimal"}

local function planned(step, mode, limit, memory, ...)
  local graph, begin = rille.graph(step, {auto_parallel = mode, time_limit = limit, memory_limit = memory}), os.clock()
  graph(...)
  return graph, os.clock() - begin
end

-- Reads the cost and the bound of a plan from its certificate. explain() would take longer, because it also computes
-- regrets.
local function reported(graph)
  local path = os.tmpname()
  graph:certify(path)
  local f = assert(io.open(path))
  local text = f:read("a")
  f:close(); os.remove(path)
  return math.tointeger(text:match("\ncost (%d+)")), math.tointeger(text:match("\nbound (%d+)"))
end

-- ---- planning the forty steps in each mode ----

print(("%-42s %11s %11s %11s %11s %11s  %5s %8s"):format("ns of a step", "greedy", "propagate", "recursive", "optimal", "bound",
  "ratio", "plan"))
local logs, n, proven = 0, 0, 0
for _, e in ipairs(programs) do
  if not arg[1] or arg[1] == e[1] then
    local cost, bound, seconds = {}, nil, nil
    for k, mode in ipairs(modes) do
      local step, x, y = make(e)
      local graph, took = planned(step, mode, 2, nil, x, y)
      cost[k], bound = reported(graph)
      seconds = took
    end
    print(("%-42s %11d %11d %11d %11d %11d  %5.2f %6.0fms"):format(e[1], cost[1], cost[2], cost[3], cost[4], bound,
      cost[4] / cost[1], 1e3 * seconds))
    logs, n, proven = logs + math.log(cost[4] / cost[1]), n + 1, proven + (bound == cost[4] and 1 or 0)
  end
end
if n > 1 then print(("geometric mean of optimal / greedy: %.3f; %d of %d proven optimal"):format(math.exp(logs / n), proven, n)) end

-- ---- timing the regrets that explain() computes ----

if arg[1] == "regrets" then
  print(("%-42s %8s %8s %10s"):format("explain() of a step", "seconds", "open", "candidates"))
  for _, e in ipairs(programs) do
    local step, x, y = make(e)
    local graph, n, open = planned(step, true, 2, nil, x, y), 0, 0
    local begin = os.clock()
    local ops = graph:explain().ops
    local took = os.clock() - begin
    for _, op in ipairs(ops) do
      for _, c in ipairs(op.candidates) do n, open = n + 1, open + (c.regret == c.regret_high and 0 or 1) end
    end
    print(("%-42s %8.3f %7.0f%% %10d"):format(e[1], took, 100 * open / n, n))
  end
end

-- ---- planning steps of large models on many devices ----

local Layer = nn.Module:extend("Layer")
function Layer:init(o)
  self.gated = o.gated
  self.norm1, self.norm2 = o.gated and nn.RMSNorm(o.d) or nn.LayerNorm(o.d), o.gated and nn.RMSNorm(o.d) or nn.LayerNorm(o.d)
  self.attention = nn.MultiheadAttention(o.d, o.heads, {is_causal = true, kv_heads = o.kv, bias = not o.gated})
  if o.experts then self.mixture = nn.MixtureOfExperts(o.d, o.inner, o.experts) return end
  self.up, self.down = nn.Linear(o.d, o.inner, {bias = not o.gated}), nn.Linear(o.inner, o.d, {bias = not o.gated})
  if o.gated then self.gate = nn.Linear(o.d, o.inner, {bias = false}) end
end
function Layer:forward(x)
  x = x + self.attention(self.norm1(x))
  local y = self.norm2(x)
  if self.mixture then return x + self.mixture(y) end
  y = self.gated and self.gate(y):silu() * self.up(y) or self.up(y):gelu()
  return x + self.down(y)
end

local Model = nn.Module:extend("Model")
function Model:init(o)
  local layers = {}
  for i = 1, o.layers do layers[i] = Layer(o) end
  self.tokens, self.layers = nn.Embedding(o.vocabulary, o.d), nn.Sequential(table.unpack(layers))
  self.norm, self.head = nn.LayerNorm(o.d), nn.Linear(o.d, o.vocabulary, {bias = false})
end
function Model:forward(ids) return self.head(self.norm(self.layers(self.tokens(ids)))) end

local clusters = {
  {mesh = {8, 8}, bandwidth = {25e9, 400e9}, latency = {5e-6, 1e-6}, flops = 4e14},
  {mesh = {12288, 8}, bandwidth = {25e9, 400e9}, latency = {5e-6, 1e-6}, flops = 4e14},
  {mesh = {100000}, bandwidth = 25e9, latency = 5e-6, flops = 4e14},
}

-- Plans a training step within a time and a memory limit. Returns the result of explain(), the graph, and the
-- processor seconds from the call to the plan.
local function step_of(o, mesh, sbp, limit, memory)
  local P = rille.placement("meta", mesh)
  local net = Model(o)
  net:to_global{placement = P, sbp = "auto"}
  local opt = optim.AdamW(net:parameters(), {lr = 1e-4})
  local rows = o.batch * o.length
  local ids = rille.zeros({o.batch, o.length}, {dtype = "i64", placement = P, sbp = sbp})
  local graph, took = planned(function(x)
    local loss = net(x):reshape{rows, o.vocabulary}:cross_entropy(x:reshape{rows})
    loss:backward(); opt:step(); opt:zero_grad()
    return loss
  end, true, limit, memory, ids)
  return graph:explain(), graph, took
end

local function large(name, o, mesh, sbp, limit)
  local e, graph, took = step_of(o, mesh, sbp, limit)
  local text = {}
  for _, c in ipairs(clusters) do
    local begin = os.clock()
    local far = rille.whatif(graph, c)
    text[#text + 1] = ("%5.2fs %9.3fms"):format(os.clock() - begin, far.step_time * 1e3)
  end
  print(("%-24s %8d %7.3fs %12.3f %7.3f%%  %s"):format(name, #e.ops, took, e.cost / 1e6, 100 * e.gap, table.concat(text, "  ")))
end

local line, grid = {0, 1, 2, 3, 4, 5, 6, 7}, {{0, 1, 2, 3}, {4, 5, 6, 7}}
local gpt2 = {layers = 12, d = 768, heads = 12, inner = 3072, vocabulary = 50257, batch = 8, length = 256}
local llama = {layers = 32, d = 4096, heads = 32, kv = 8, inner = 14336, vocabulary = 128256, batch = 8, length = 2048, gated = true}

local experts = {layers = 12, d = 768, heads = 12, inner = 3072, experts = 8, vocabulary = 50257, batch = 8, length = 256}
local many = {{64, 48, 32}, {16, 16, 16, 24}, {10, 10, 10, 10, 10}, {3, 5, 7, 9, 11}, {2, 2, 2, 2, 2, 2}, {4, 4, 4, 4, 4, 4}, {12, 8, 8, 8, 8, 2}}

-- Plans several steps on meshes of many axes, and prints a table with a column per step.
local function on_many(steps)
  local head, cell = {}, {}
  for k, step in ipairs(steps) do head[k] = ("%16s"):format(step[1]) end
  print(("\n%-24s %s"):format("whatif on", table.concat(head, "  ")))
  for _, mesh in ipairs(many) do
    for k, step in ipairs(steps) do
      local begin = os.clock()
      local far = rille.whatif(step[2], {mesh = mesh, bandwidth = 25e9, latency = 5e-6, flops = 4e14})
      cell[k] = ("%5.2fs %8.3fms"):format(os.clock() - begin, far.step_time * 1e3)
    end
    print(("%-24s %s"):format(table.concat(mesh, " x "), table.concat(cell, "  ")))
  end
end

local function part(name) return not arg[1] or arg[1] == name end

if part("large") then
  print(("\n%-24s %8s %8s %12s %8s  %s"):format("on devices that are not there", "ops", "plan", "ms of a step", "gap",
    "whatif and ms of a step on 64, 98,304 and 100,000"))
  large("GPT-2 124M on 8", gpt2, line, "S(0)", 0.75)
  large("GPT-2 124M on 2 x 4", gpt2, grid, {"S(0)", "B"}, 0.75)
  large("Llama 8B on 8", llama, line, "S(0)", 0.5)
  large("Llama 8B on 2 x 4", llama, grid, {"S(0)", "B"}, 0.5)
  local steps = {}
  for _, e in ipairs(programs) do
    if e[1] == "mlp dp4" or e[1] == "gpt dp4" then
      local step, x, y = make(e)
      steps[#steps + 1] = {e[1], (planned(step, true, 0.65, nil, x, y))}
    end
  end
  for _, o in ipairs{{"GPT-2 124M", gpt2}, {"of 8 experts", experts}, {"Llama 8B", llama}} do
    local _, graph = step_of(o[2], line, "S(0)", 0.5)
    steps[#steps + 1] = {o[1], graph}
  end
  on_many(steps)
end

-- ---- planning steps within memory limits ----

if part("within") then
  print(("\n%-24s %8s %8s %12s %8s"):format("within a memory limit", "of free", "plan", "ms of a step", "gap"))
  for _, at in ipairs{{line, "S(0)", "GPT-2 124M on 8"}, {grid, {"S(0)", "B"}, "GPT-2 124M on 2 x 4"}} do
    local free, name = step_of(gpt2, at[1], at[2], 2), at[3]
    for _, part in ipairs{0.95, 0.9, 0.8} do
      local good, e, _, took = pcall(step_of, gpt2, at[1], at[2], 2, math.floor(part * free.memory))
      print(good and ("%-24s %8.2f %7.2fs %12.3f %7.3f%%"):format(name, part, took, e.cost / 1e6, 100 * e.gap) or name .. ": " .. e)
    end
  end
end

-- ---- deep stacks: only the search is timed ----

if part("deep") then
  print(("\n%-24s %8s %8s %12s %8s"):format("deep, on 8", "ops", "search", "ms of a step", "gap"))
  for _, layers in ipairs{109, 543} do
    local o = {layers = layers, d = 768, heads = 12, inner = 3072, vocabulary = 50257, batch = 8, length = 256}
    local e = step_of(o, line, "S(0)", 20)
    print(("%-24s %8d %7.3fs %12.3f %7.3f%%"):format(layers .. " layers of GPT-2", #e.ops, e.search_time, e.cost / 1e6, 100 * e.gap))
  end
end
