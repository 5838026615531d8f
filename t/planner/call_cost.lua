-- call_cost.lua - a call with a split axis is computed in parts or in one piece, whichever costs less in the planned
-- step (actors/session/planner/replan.c, call_cost.c).
--
-- The choice is made per call, whatever other calls the step has.
local rille = require "rille"
local tap = dofile("t/lib/tap.lua")

local P <const>, ONE <const> = rille.placement("cpu", {0, 1, 2, 3}), rille.placement("cpu", {0})

-- Each call: its name, and a function that returns a function and its operand for a placement.
local calls = {}
for _, shape in ipairs{{64, 4096}, {1, 65536}, {16, 512}} do
  for _, name in ipairs{"softmax", "log_softmax", "layer_norm", "rms_norm"} do
    calls[#calls + 1] = {("%s of {%s}"):format(name, table.concat(shape, ", ")), function(place)
      return function(x) return x[name](x) end, rille.randn(shape, {placement = place, sbp = place == P and "S(1)" or "B"})
    end}
  end
end
for _, sizes in ipairs{{512, 512}, {1, 512}, {1, 4096}} do
  local rows, keys = table.unpack(sizes)
  calls[#calls + 1] = {("attention of %d rows over %d"):format(rows, keys), function(place)
    local at = {placement = place, sbp = place == P and "S(1)" or "B"}
    local k, v = rille.randn({1, keys, 64}, at), rille.randn({1, keys, 64}, at)
    return function(q) return rille.scaled_dot_product_attention(q, k, v) end, rille.randn({1, rows, 64}, {placement = place})
  end}
end

-- Returns the results of the calls and their gradients, the step, and the number of its traces.
local function run(place, list, gradient)
  local f, x, traces = {}, {}, 0
  for k, call in ipairs(list) do
    rille.manual_seed(k)
    f[k], x[k] = call[2](place)
    if gradient then x[k]:requires_grad_() end
  end
  local step = rille.graph(function()
    local y = {}
    traces = traces + 1
    for k in ipairs(list) do y[k] = f[k](x[k]) end
    if gradient then
      for k in ipairs(list) do (y[k] * y[k] * y[k]):sum():backward() end
    end
    return table.unpack(y)
  end, {auto_parallel = place == P, time_limit = 600})
  local y = {step()}
  if gradient then
    for k in ipairs(list) do y[#list + k] = x[k].grad end
  end
  return y, step, traces
end

local function near(got, want)
  for k, y in ipairs(got) do
    local w = want[k]:to_global{placement = P, sbp = "B"}
    local off = ((y:to_global{sbp = "B"} - w):abs() / (w:abs() + w:abs():mean())):max():item()
    if not (off < 1e-3) then return false, ("result %d is off by %g"):format(k, off) end
  end
  return #got == #want, "the number of results differs"
end

-- Checks explain(): the costs of independent calls add up to the cost of the step, and no rejected method was cheaper.
local function told(step)
  local e, sum, n, why = step:explain(), 0, 0, nil
  for _, op in ipairs(e.ops) do
    if op.call then
      local taken, other = op.parts_ns, op.piece_ns
      if not op.in_parts then taken, other = other, taken end
      if other < taken then why = ("%s: %d and %d"):format(op.call, taken, other) end
      sum, n = sum + taken, n + 1
      local text = ("%s in %s: %d ns with what is near; in %s %d ns"):format(op.call, op.in_parts and "parts" or "one piece", taken,
        op.in_parts and "one piece" or "parts", other)
      if not tostring(e):find(text, 1, true) then why = "the text has no \"" .. text .. "\"" end
    end
  end
  return sum == e.cost and not why, n, why or ("they sum to %d, the step to %d"):format(sum, e.cost)
end

for _, gradient in ipairs{false, true} do
  local with, alone, all = gradient and ", with gradients" or "", {}, 0
  for k, call in ipairs(calls) do
    local _, step = run(P, {call}, gradient)
    alone[k] = step:explain().cost
    all = all + alone[k]
  end
  for k, call in ipairs(calls) do
    for l = k, #calls do
      local name = ("%s and %s%s: "):format(call[1], calls[l][1], with)
      local got, step, traces = run(P, {call, calls[l]}, gradient)
      tap.ok(step:explain().cost <= alone[k] + alone[l], name .. "both calls together cost no more than separately",
        ("%d, and %d + %d"):format(step:explain().cost, alone[k], alone[l]))
      local good, n, why = told(step)
      tap.ok(good, name .. "explain() reports the cost of both methods", why)
      tap.is(n, 2, name .. "explain() reports each call once")
      if k == l then tap.is(traces, 2, name .. "two equal calls need no more traces than one call") end
      tap.ok(traces <= 3, name .. "the step is traced at most three times")
      tap.ok(near(got, (run(ONE, {call, calls[l]}, gradient))), name .. "values equal those of one device")
    end
  end
  local got, step = run(P, calls, gradient)
  tap.ok(step:explain().cost <= all, "all calls together cost no more than separately" .. with)
  tap.ok(near(got, (run(ONE, calls, gradient))), "all calls together: values equal those of one device")
end

-- The same with recompute, with micro-batches, and within a memory limit.
do
  local function pair(place, options)
    rille.manual_seed(8)
    local at = {placement = place, sbp = place == P and "S(1)" or "B"}
    local x, y = rille.randn({2, 128}, at), rille.randn({2, 65536}, at)
    at.sbp = place == P and "S(0)" or "B"
    local v, w, traces = rille.randn({128}, at):requires_grad_(), rille.randn({65536}, at):requires_grad_(), 0
    local step = rille.graph(function(x, y)
      traces = traces + 1
      v.grad, w.grad = nil, nil
      local loss = (x * v):softmax(1):square():mean() + (y * w):rms_norm():exp():mean()
      loss:backward()
      return loss
    end, options)
    return {step(x, y), v.grad, w.grad}, step, traces
  end
  local want = pair(ONE, {})
  local _, free = pair(P, {auto_parallel = true, time_limit = 600})
  for name, options in pairs{["with recompute"] = {recompute = true}, ["with micro-batches"] = {micro_batches = 2},
    ["within a memory limit"] = {memory_limit = math.floor(0.98 * free:explain().memory)}} do
    options.auto_parallel, options.time_limit = true, 600
    local got, step, traces = pair(P, options)
    local ways = {}
    for _, op in ipairs(step:explain().ops) do
      if op.call then ways[#ways + 1] = {op.call, op.in_parts} end
    end
    tap.ok(near(got, want), name .. ": values equal those of one device")
    if options.micro_batches then tap.is({traces, ways}, {3, {{"softmax", false}, {"rms_norm", true}}}, name .. ": each call has its own method") end
  end
end
-- Chains of calls that each mode expands in its own way. No mode finds a plan that costs less than the optimal mode's,
-- even with a short time limit and small steps.
tap.group("no mode costs less than optimal", function()
  local LINE <const>, GRID <const> = rille.placement("cpu", {0, 1}), rille.placement("cpu", {{0, 1}, {2, 3}})
  local function learned(f)
    return function(x)
      local y = f(x)
      return y, rille.grad(y:square():sum(), x)
    end
  end
  local function norms(x)
    for _ = 1, 3 do x = x:layer_norm():softmax(0) end
    return x
  end
  local function scaled(x) return x * x:logsumexp(1, {keepdim = true}) end
  local CUBE <const> = rille.placement("cpu", {{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}})
  local function first(x) return x:add(x:argmax{axis = 1, keepdim = true}):clamp(-1000, 1000) end
  local function firsts(x)
    local y = x:sum{axis = 0, keepdim = true}:add(x):clamp(-1000, 1000)
    return first(y), first(x:add(x):clamp(-1000, 1000)):sum(), y:clamp(-20, 20)
  end
  local function chain(x) return x:softmax(0):gelu():softmax(1):log_softmax(1) end
  local programs = {
    {"norms and softmaxes, with gradients", learned(norms), LINE, "S(1)", {256, 16}},
    {"norms and softmaxes", norms, LINE, "S(1)", {256, 16}},
    {"logsumexp, with gradients", learned(scaled), LINE, "S(1)", {256, 16}},
    {"logsumexp of long rows", learned(scaled), LINE, "S(1)", {512, 64}},
    {"softmaxes on a grid", chain, GRID, {"S(0)", "S(1)"}, {64, 256}},
    {"softmaxes on a grid, axes exchanged", chain, GRID, {"S(1)", "S(0)"}, {64, 256}},
    {"argmax of rows, short time limit", firsts, CUBE, {"S(0)", "S(0)", "B"}, {5, 6}, 0.3},
    {"argmax twice, short time limit", function(x) return first(first(x)) end, CUBE, {"S(0)", "S(1)", "B"}, {5, 6}, 0.3},
    {"softmaxes, short time limit", chain, CUBE, {"S(0)", "S(1)", "B"}, {16, 64}, 0.3},
  }
  for _, program in ipairs(programs) do
    local name, f, place, sbp, shape, limit = table.unpack(program)
    local cost = {}
    for _, mode in ipairs{true, "propagate", "recursive", "greedy"} do
      rille.manual_seed(1)
      local x = rille.randn(shape, {placement = place, sbp = sbp}):requires_grad_()
      local step = rille.graph(function() return f(x) end, {auto_parallel = mode, time_limit = limit or 30})
      step()
      cost[#cost + 1] = step:explain().cost
    end
    tap.ok(cost[1] <= math.min(table.unpack(cost)), name, "true, propagate, recursive, greedy: " .. table.concat(cost, " "))
  end
end)

tap.done()
