-- func.lua - rille.func{forward =, backward =}: a function with its own gradient, like torch.autograd.Function.
--
--   local clip = rille.func{
--     forward = function(ctx, x, low, high) ctx:save_for_backward(x); ctx.low, ctx.high = low, high; return x:clamp(low, high) end,
--     backward = function(ctx, dy)
--       local x = table.unpack(ctx.saved_tensors)
--       return dy * x:ge(ctx.low):logical_and(x:le(ctx.high))
--     end}
--   local y = clip(x, -1, 1)
--
-- forward runs without gradients. Both functions call operators of Rille, so layouts, stages and micro-batches are
-- handled as in any other code, and a compiled step records these operators. The core
-- (actors/session/build/own_gradient.c) keeps the saved tensors and calls backward.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local locals = require "rille.per_rank.local"
local trace = require "rille.step.trace"

-- ---- local tensors of rille.per_rank ----

-- Replaces the local tensors of a list by the global tensors behind them. Returns the set of their positions and their
-- mesh; nil: no local tensors.
local function open_locals(list)
  local places, mesh = {}, nil
  for i = 1, list.n do
    if locals.is(list[i]) then places[i], mesh, list[i] = true, list[i].mesh, list[i].value end
  end
  return places, mesh
end

-- Reverses open_locals().
local function close_locals(list, places, mesh)
  for i in pairs(places) do list[i] = list[i] and locals.wrap(mesh, list[i]) end
end

-- Returns the global tensor behind g, the gradient of a local argument. sizes: those of the global tensor behind the
-- argument. Adds the gradients of ranks whose argument is one, and repeats a gradient that is equal on all ranks.
local function gradient_of_local(g, sizes)
  local value, grown = g.value, {}
  for i = 1, #value.shape do grown[i] = -1 end
  for i = 1, g.mesh.naxis do
    if sizes[i] == 1 and value.shape[i] > 1 then value = value:sum(i - 1, true) end
    if sizes[i] > 1 and value.shape[i] == 1 then grown[i] = sizes[i] end
  end
  return value:expand(grown)
end

-- ---- the context of a call ----

local context = {} -- methods of ctx

-- Saves tensors for backward, which reads them from ctx.saved_tensors.
function context.save_for_backward(ctx, ...)
  local given = table.pack(...)
  local places, mesh = open_locals(given)
  for i = 1, given.n do
    check.that(layout.is_tensor(given[i]), "save_for_backward: expected tensors, found %s as argument %d; assign other values to fields of the context",
      check.shown(given[i]), i)
  end
  rawset(ctx, "saved_tensors", given)
  rawset(ctx, "saved_locals", mesh and {places = places, mesh = mesh})
end

local context_meta = {__index = context, __newindex = function(ctx, name, value)
  check.that(not (layout.is_tensor(value) or locals.is(value)), "ctx.%s: a tensor must be kept by ctx:save_for_backward(...)", check.named(name))
  rawset(ctx, name, value)
end}

-- Returns true if t, a table without a metatable, contains a tensor that requires a gradient.
local function hides_gradient(t, depth)
  for _, v in next, type(t) == "table" and getmetatable(t) == nil and depth < 4 and t or {} do
    if layout.is_tensor(v) and v.requires_grad or hides_gradient(v, depth + 1) then return true end
  end
  return false
end

local function new_context(name, args)
  local needs = {}
  for i = 1, args.n do
    check.that(not hides_gradient(args[i], 0), "%s: argument %d is a table with tensors that require gradients; pass these tensors as arguments",
      name, i)
    needs[i] = layout.is_tensor(args[i]) and args[i].requires_grad
  end
  return setmetatable({needs_input_grad = needs}, context_meta)
end

-- ---- calling the user's backward ----

-- Checks the gradients that backward returned for the arguments of forward.
local function check_gradients(name, ctx, args, given)
  for i = 1, math.max(given.n, args.n) do
    local g = given[i]
    check.that(g == nil or layout.is_tensor(g), "%s: gradient %d of backward must be a tensor or nil, found %s", name, i, check.shown(g))
    check.that(g == nil or i <= args.n, "%s: backward must return one gradient per argument of forward, %d, found %d", name, args.n, given.n)
    check.that(g == nil or args[i], "%s: the gradient of argument %d of forward must be nil, because the argument is not a tensor; found a tensor", name, i)
    check.that(i <= given.n or not ctx.needs_input_grad[i],
      "%s: backward must return one gradient per argument of forward, %d, found %d; return nil for an argument without gradient", name, args.n,
      given.n)
  end
end

-- Replaces the local tensors among the gradients that backward returned by global tensors.
local function open_gradients(name, given, args)
  for i = 1, given.n do
    local sizes = args.sizes[i]
    check.that(given[i] == nil or not sizes == not locals.is(given[i]), "%s: gradient %d of backward must be a %s tensor, as argument %d of forward, found %s",
      name, i, sizes and "local" or "global", i, check.shown(given[i]))
    if sizes and given[i] then given[i] = gradient_of_local(given[i], sizes) end
  end
end

-- Returns the function that the core calls in backward. args[i]: true if argument i is a tensor; args.sizes[i]: sizes
-- of the global tensor behind a local argument; places[k]: position, among all results, of the k-th result that is a
-- tensor; results: the set of positions of local results, their mesh and the number of all results.
local function backward_of(name, fn, ctx, args, places, results)
  local saved_locals = ctx.saved_locals
  return function(gradients, saved)
    local list = {}
    for k, place in ipairs(places) do list[place] = gradients[k] or nil end
    if results.mesh then close_locals(list, results.places, results.mesh) end
    if saved_locals then close_locals(saved, saved_locals.places, saved_locals.mesh) end
    rawset(ctx, "saved_tensors", saved)
    local given = table.pack(fn(ctx, table.unpack(list, 1, results.n)))
    rawset(ctx, "saved_tensors", nil)
    open_gradients(name, given, args)
    check_gradients(name, ctx, args, given)
    return given
  end
end

-- ---- creating and calling the function ----

local function named(name, fn, ...)
  local was = rille._name_calls(name)
  local undo <close> = setmetatable({}, {__close = function() rille._name_calls(was) end})
  return table.pack(rille.no_grad(fn, ...))
end

-- Returns a copy of the arguments with `true` in place of tensors, because handles of tensors would keep their
-- memory.
local function kinds_of(args, is_local)
  local kinds = {n = args.n, sizes = {}}
  for i = 1, args.n do
    kinds[i] = layout.is_tensor(args[i]) or nil
    kinds.sizes[i] = is_local[i] and args[i].shape
  end
  return kinds
end

local function call(o, ...)
  local args = table.pack(...)
  local is_local = open_locals(args)
  local ctx = new_context(o.name, args)
  if trace.meets(o) then
    trace.follow_all(o.forward, o.name)
    trace.follow_all(o.backward, o.name)
  end
  local results, tensors, places = named(o.name, o.forward, ctx, ...), {}, {}
  results.places, results.mesh = open_locals(results)
  for k = 1, results.n do
    if layout.is_tensor(results[k]) then tensors[#tensors + 1], places[#places + 1] = results[k], k end
  end
  check.that(#tensors > 0, "%s: forward must return a tensor, found %s", o.name, check.shown(results[1]))
  local saved = ctx.saved_tensors or {}
  rawset(ctx, "saved_tensors", nil)
  local backward = backward_of(o.name, o.backward, ctx, kinds_of(args, is_local), places,
    {places = results.places, mesh = results.mesh, n = results.n})
  local out = rille._own_gradient(o.name, backward, args, saved, tensors)
  for k, place in ipairs(places) do results[place] = out[k] end
  close_locals(results, results.places, results.mesh)
  return table.unpack(results, 1, results.n)
end

return function(given)
  local o = check.options("func", given, {name = check.none, forward = check.none, backward = check.none})
  check.fn("func", "forward", o.forward)
  check.fn("func", "backward", o.backward)
  if o.name ~= nil then check.name("func", o.name) end
  local info = debug.getinfo(o.forward, "S")
  o.name = o.name or ("func (%s:%d)"):format(info.short_src, info.linedefined)
  return function(...) return call(o, ...) end
end
