-- priced.lua - estimates the cost of each block of a model with the planner, for the lists of cut.lua that the user
-- does not give.
--
-- The model is called once on meta devices, where tensors have layouts but no values. In this call all stages are on
-- one mesh and have the recipe's layouts; the arguments of each block are recorded. Then forward and backward of each
-- block are planned as a step:
--
--   cost         ns per micro-batch, forward and backward
--   memory       bytes per device of the block's parameters and their gradients
--   activations  peak bytes per device besides `memory`: activations kept by the block, and its working memory
--   hop          ns to send the block's input from another mesh, and its gradient back
--
-- The parts of the model before the first block are added to the first block, all other parts to the last block. The
-- loss is assumed to cost as much as logsumexp of the model's result.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local meta = require "rille.parallel.meta"

local who = "parallel: blocks: input"

local function same_shape(a, b)
  return table.concat(a.shape, " ") == table.concat(b.shape, " ")
end

-- ---- recording the inputs and outputs of blocks ----

-- Copies the arguments, with new tensors of equal layout in place of the tensors.
local function twins(args)
  local list = {n = args.n}
  for i = 1, args.n do list[i] = layout.is_tensor(args[i]) and meta.like(args[i]) or args[i] end
  return list
end

-- Calls the model, and returns values from this call: the arguments of each block, and the result of the last block.
local function note(model, blocks, input)
  local into, last = {}, nil
  meta.with_forward(blocks, function(k, own, self, ...)
    into[k] = twins(table.pack(...))
    local results = table.pack(own(self, ...))
    if k == #blocks then last = results[1] end
    return table.unpack(results, 1, results.n)
  end, function() rille.no_grad(model, input) end)
  for k in ipairs(blocks) do check.that(into[k], "%s: the model does not call block %d of %d", who, k, #blocks) end
  check.that(layout.is_tensor(last), "%s: the last block must return a tensor, found %s", who, check.shown(last))
  return into, meta.like(last)
end

-- ---- planning blocks to estimate their costs ----

-- Plans fn(tensors...) as a step, and returns the step's cost and memory. An argument requires a gradient in the step
-- if it does outside the step.
local function planned(fn, ...)
  local given = {...}
  local step = rille.graph(function(...)
    local args = {...}
    for k, t in ipairs(given) do
      if t.requires_grad then args[k] = args[k]:detach():requires_grad_(true) end
    end
    return fn(table.unpack(args))
  end, {auto_parallel = "propagate", time_limit = 1e-6}) -- only the costs of the plan are needed
  step(...)
  return step:explain()
end

local function tensors_of(args)
  local list = {}
  for i = 1, args.n do
    if layout.is_tensor(args[i]) then list[#list + 1] = args[i] end
  end
  return list
end

-- Returns the arguments with their tensors replaced by the given ones.
local function with_tensors(args, given)
  local list, at = {}, 0
  for i = 1, args.n do
    list[i] = args[i]
    if layout.is_tensor(args[i]) then
      at = at + 1
      list[i] = given[at]
    end
  end
  return table.unpack(list, 1, args.n)
end

local function backward(y, loss)
  check.that(layout.is_tensor(y) and layout.is_float(y), "%s: each block and the model must return a tensor of a float dtype, found %s", who,
    layout.is_tensor(y) and y.dtype or check.shown(y))
  if loss then y = y:logsumexp(-1) end
  y = y:sum()
  y:backward()
  return y
end

-- Returns the bytes of t on the rank with the largest shard.
local function local_bytes(t)
  local most = 0
  for _, shard in ipairs(t:shards()) do most = math.max(most, layout.shard_bytes(t, shard)) end
  return most
end

-- Returns the bytes of parameters, gradients and buffers: per block, for all modules before the first block, and for
-- all other modules.
local function held(model, blocks)
  local at, met, seen, number = {before = 0, after = 0}, "before", {}, {}
  for k, m in ipairs(blocks) do
    at[k] = 0
    for _, part in ipairs(m:modules()) do number[part] = k end
  end
  local function add(where, tensors)
    for _, found in ipairs(tensors) do
      local t = found.tensor
      if not seen[t] then at[where] = at[where] + local_bytes(t) * (t.requires_grad and 2 or 1) end
      seen[t] = true
    end
  end
  for k, m in ipairs(blocks) do add(k, m:named_tensors()) end
  for _, m in model:named_modules() do
    if number[m] then met = "after" end
    local own = {}
    for _, found in ipairs(m:named_tensors()) do own[#own + 1] = rawget(m, found.key) == found.tensor and found or nil end
    if not number[m] then add(met, own) end
  end
  add("after", model:named_tensors())
  return at
end

-- Plans the part of the model before the first block. back: if true, plans backward, too.
local function before(model, blocks, input, back)
  return planned(function(x)
    local h
    local escape = {}
    local good, why = pcall(meta.with_forward, {blocks[1]}, function(_, _, _, first)
      h = first
      error(escape, 0)
    end, function() model(x) end)
    if not good and why ~= escape then error(why, 0) end
    return back and h.requires_grad and backward(h) or h
  end, input)
end

-- Plans the model after its last block: forward from z, which stands for the last block's result, and backward to z.
local function after(model, blocks, input, last)
  return planned(function(x, z)
    local y = meta.with_forward(blocks, function(k, _, _, first) return k == #blocks and z or first end, function() return model(x) end)
    return backward(y, true)
  end, input, last)
end

-- Returns the estimated lists of costs. blocks: the modules assigned to stages, in order; entries: the recipe's table
-- of layouts; stages: placements of the stages; input: the model's input for one micro-batch. Fails if the planner
-- cannot estimate the costs; the user must then list them.
local function priced(model, blocks, entries, stages, input)
  check.that(layout.is_tensor(input),
    "%s must be a tensor, the model's input of one micro-batch, found %s", who, check.shown(input))
  check.that((rille.zeros({}, {requires_grad = true}) * 1).requires_grad,
    "%s: the cost of backward cannot be estimated inside rille.no_grad; call rille.parallel outside, or list cost", who)
  for _, p in ipairs(stages) do
    check.that(same_shape(p, stages[1]), "%s: the stages' meshes must have one shape to estimate costs; otherwise list cost", who)
  end
  local here, there = meta.mesh(stages[1].shape, 0), meta.mesh(stages[1].shape, stages[1].size)
  local out = {cost = {}, memory = {}, activations = {}, hop = {}}
  meta.replace(model, entries, here, function()
    input = rille.zeros(input.shape, {dtype = input.dtype, placement = here,
      sbp = #input.placement.shape == #here.shape and input.sbp or layout.replicated(here)})
    local into, last = note(model, blocks, input)
    local bytes = held(model, blocks)
    for k, m in ipairs(blocks) do
      local args = into[k]
      local e = planned(function(...) return backward((m(with_tensors(args, {...})))) end, table.unpack(tensors_of(args)))
      local move = planned(function(x) return x:to_global{placement = there, sbp = x.sbp} end, (tensors_of(args)[1]))
      out.cost[k], out.memory[k], out.hop[k] = e.cost, bytes[k], 2 * move.cost
      out.activations[k] = math.max(0, e.memory - bytes[k])
    end
    local first, forward, rest = before(model, blocks, input, true), before(model, blocks, input), after(model, blocks, input, last)
    local n = #blocks
    out.cost[1], out.cost[n] = out.cost[1] + first.cost, out.cost[n] + math.max(0, rest.cost - forward.cost)
    out.memory[1], out.memory[n] = out.memory[1] + bytes.before, out.memory[n] + bytes.after
    out.activations[1] = out.activations[1] + math.max(0, first.memory - bytes.before)
    out.activations[n] = out.activations[n] + math.max(0, rest.memory - bytes.before - bytes.after)
  end)
  return out
end

return priced
