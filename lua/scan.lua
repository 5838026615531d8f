-- scan.lua - rille.scan(fn, state, xs, options): a loop over the positions of an axis that passes on a state, like
-- jax.lax.scan.
--
--   local h, ys = rille.scan(function(h, x) h = cell(x, h) return h, h end, h0, xs, {axis = 1})
--
-- The loop calls fn once per position, so traces and plans grow linearly with the length. Backward is linear, too:
-- the gradients of all positions of xs are joined in one buffer (kernels/op/slice_grad.c). With recompute = true,
-- only the states between sqrt(n) chunks of positions are kept, and backward computes all other values again, one
-- chunk at a time (Chen et al. 2016).

local rille = require "rille"
local check = require "rille.check"
local layout = require "rille.layout"
local nested = require "rille.nested"
local recompute = require "rille.recomputed"

local WHO <const> = "scan"

-- ---- trees: a tensor, or a table of trees ----

local function is_table(v) return type(v) == "table" and getmetatable(v) == nil end

-- Copies a tree, with leaf(tensor, path) in place of each tensor. path: name of the tree in messages.
local function map(tree, path, leaf)
  if layout.is_tensor(tree) then return leaf(tree, path) end
  check.that(is_table(tree), "%s: %s must be a tensor or a table of tensors, found %s", WHO, path, check.shown(tree))
  local copy = {}
  for _, key in ipairs(nested.ordered_keys(tree, WHO .. ": " .. path)) do
    copy[key] = map(tree[key], ("%s.%s"):format(path, key), leaf)
  end
  return copy
end

local function type_text(v)
  return layout.is_tensor(v) and ("%s{%s}"):format(v.dtype, table.concat(v.shape, ", ")) or check.shown(v)
end

-- Checks that two trees have the same keys, shapes and dtypes.
local function check_same(path, first, found)
  if is_table(first) and is_table(found) then
    for key in next, found do
      check.that(first[key] ~= nil, "%s: %s has the new key %s; every call of the function must return the same keys", WHO, path, check.shown(key))
    end
    for key, part in next, first do check_same(("%s.%s"):format(path, key), part, found[key]) end
  else
    local a, b = type_text(first), type_text(found)
    check.that(a == b, "%s: %s must have the same shape and dtype in every call of the function; expected %s, found %s", WHO, path, a, b)
  end
end

-- Joins the corresponding tensors of a list of trees along a new axis; returns one tree.
local function stacked(trees, axis)
  if layout.is_tensor(trees[1]) then return rille.stack(trees, axis) end
  local joined = {}
  for _, key in ipairs(nested.ordered_keys(trees[1], WHO)) do
    local parts = {}
    for t, tree in ipairs(trees) do parts[t] = tree[key] end
    joined[key] = stacked(parts, axis)
  end
  return joined
end

-- ---- the loop ----

-- Returns the number of positions.
local function length_of(xs, o)
  local n = o.length
  if xs ~= nil then
    map(xs, "xs", function(x, path)
      check.that(o.axis < x.ndim, "%s: %s must have the axis %d, found %s", WHO, path, o.axis, type_text(x))
      local size = x.shape[o.axis + 1]
      check.that(n == nil or n == size, "%s: %s must have %d entries along axis %d, as the length or other tensors of xs, found %d", WHO,
        path, n, o.axis, size)
      n = size
    end)
  end
  check.that(n, "%s: length must be given if xs has no tensors", WHO)
  check.that(n > 0, "%s: the length must be at least 1, found 0", WHO)
  return n
end

-- Returns the tree xs at position t.
local function at(xs, axis, t)
  if xs == nil then return nil end
  return map(xs, "xs", function(x) return x:slice(axis, t, t + 1):squeeze(axis) end)
end

-- Calls fn for the positions from first to stop - 1. Returns the last state, and appends the outputs to ys.
local function run(fn, state, xs, axis, first, stop, ys)
  for t = first, stop - 1 do
    local before, y = state, nil
    state, y = fn(before, at(xs, axis, t))
    check_same("the state", before, state)
    if t > 0 then check_same("the output", ys[1], y) end
    if y ~= nil then map(y, "the output", function() end) end
    ys[t + 1] = y
  end
  return state
end

return check.limited(WHO, function(fn, state, xs, options)
  local o = check.options(WHO, options, {axis = 0, length = check.none, recompute = false})
  check.that(rille._is_callable(fn), "%s: expected a function, found %s", WHO, check.shown(fn))
  check.whole(WHO, "axis", o.axis, 0)
  if o.length then check.count(WHO, "length", o.length) end
  map(state, "the state", function() end)
  local n, ys = length_of(xs, o), {}
  local size = o.recompute and math.ceil(math.sqrt(n)) or n
  for first = 0, n - 1, size do
    local stop = math.min(first + size, n)
    if o.recompute then
      state = recompute(run, fn, state, xs, o.axis, first, stop, ys)
    else
      state = run(fn, state, xs, o.axis, first, stop, ys)
    end
  end
  return state, ys[1] ~= nil and stacked(ys, o.axis) or nil
end)
