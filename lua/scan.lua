-- scan.lua - rille.scan(fn, state, xs, options): a loop over the positions of an axis that passes on a state, like
-- jax.lax.scan.
--
--   local h, ys = rille.scan(function(h, x) h = cell(x, h) return h, h end, h0, xs, {axis = 1})
--
-- fn is called once, with tensors that stand for all positions. Its operators become the body of one operator
-- (kernels/op/scan.c), so the plan and the time to compile do not depend on the length. Backward is a second such
-- operator: the states are kept, and the values of a position are computed again. If the calls of fn may differ
-- between positions, fn is called for each position instead, and the plan grows with the length: if fn draws random
-- numbers, reads a value, or changes a variable outside of it.
--
-- With recompute = true, only the states between sqrt(n) chunks of positions are kept (Chen et al. 2016).

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local nested = require "rille.step.nested"
local ranks = require "rille.per_rank.scan"
local reach = require "rille.step.reach"
local recompute = require "rille.step.recomputed"
local trace = require "rille.step.trace"

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

-- Joins the corresponding tensors of a list of trees along an axis: by rille.stack or rille.concat.
local function joined(join, trees, axis)
  if layout.is_tensor(trees[1]) then return join(trees, axis) end
  local result = {}
  for _, key in ipairs(nested.ordered_keys(trees[1], WHO)) do
    local parts = {}
    for t, tree in ipairs(trees) do parts[t] = tree[key] end
    result[key] = joined(join, parts, axis)
  end
  return result
end

-- Returns the tensors of a tree as a list; nil: no tensors.
local function flat(tree, path)
  local list = {}
  if tree ~= nil then map(tree, path, function(x) list[#list + 1] = x end) end
  return list
end

-- Returns a function that copies a tree, with the next tensors of the list in place of its tensors.
local function filler(list)
  local i = 0
  return function(tree)
    return tree ~= nil and map(tree, "the tree", function()
      i = i + 1
      return list[i]
    end) or nil
  end
end

-- ---- undoing changes that fn makes outside of itself ----

-- Returns the upvalues of fn and the tables that fn may read, with their values: the upvalues as a list, the tables
-- as copies. Returns nil and the reason if calls of fn may differ from each other.
local function places_of(fn)
  local found = {upvalues = {}, tables = {}}
  local function note(holder, key, value, name)
    if type(holder) == "function" then
      found.upvalues[#found.upvalues + 1] = {holder, key, value, name}
    elseif type(holder) == "table" and not found.tables[holder] then
      local copy = {}
      for k, v in next, holder do copy[k] = v end
      found.tables[holder] = {copy, name}
    end
  end
  for index = 1, type(fn) == "function" and debug.getinfo(fn, "u").nups or 0 do
    local name, value = debug.getupvalue(fn, index)
    note(fn, index, value, name)
  end
  local walk = reach.new{place = note, count = note, note = function() end, follows_all = trace.is_users}
  reach.from(walk, fn, "fn")
  local fixed, cut = reach.fixed(walk), reach.cut(walk)
  if fixed then return nil, ("it calls %s"):format(fixed) end
  if cut then return nil, ("it may read more values than can be followed, such as '%s'"):format(cut) end
  return found
end

-- Restores the values that places_of() recorded. Returns the name of an upvalue or table that had changed; nil: none.
local function restore(found)
  local changed
  for _, place in ipairs(found.upvalues) do
    local fn, index, value, name = table.unpack(place, 1, 4)
    local _, now = debug.getupvalue(fn, index)
    if not rawequal(now, value) then
      debug.setupvalue(fn, index, value)
      changed = changed or name
    end
  end
  for t, row in next, found.tables do
    local copy, name = table.unpack(row)
    for k in next, t do
      if copy[k] == nil then
        rawset(t, k, nil)
        changed = changed or name
      end
    end
    for k, v in next, copy do
      if not rawequal(rawget(t, k), v) then
        rawset(t, k, v)
        changed = changed or name
      end
    end
  end
  return changed
end

-- ---- computing the positions of the loop ----

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

-- Computes the positions from first to stop - 1 as one operator. Returns true, the last state and the joined outputs;
-- or false and why fn must be called for each position.
local function as_operator(fn, state, xs, axis, first, stop)
  local output
  local function body(stand_ins)
    local fill = filler(stand_ins)
    local before, x, next_state = fill(state), fill(xs), nil
    next_state, output = fn(before, x)
    check_same("the state", before, next_state)
    return flat(next_state, "the state"), flat(output, "the output")
  end
  local slices, places, differs = flat(xs, "xs"), places_of(fn)
  if not places then return false, differs end
  for k, x in ipairs(slices) do
    if stop - first < x.shape[axis + 1] then slices[k] = x:slice(axis, first, stop) end
  end
  local results, why = rille._record_scan(body, axis, stop - first, flat(state, "the state"), slices)
  local changed = restore(places)
  if changed then return false, ("it changes '%s'"):format(changed) end
  if not results then return false, why end
  local fill = filler(results)
  return true, fill(state), fill(output)
end

-- Calls fn for the positions from first to stop - 1. Returns the last state and the joined outputs.
local function by_position(fn, state, xs, axis, first, stop)
  local ys = {}
  for t = first, stop - 1 do
    local before, y = state, nil
    state, y = fn(before, at(xs, axis, t))
    check_same("the state", before, state)
    if t > first then check_same("the output", ys[1], y) end
    if y ~= nil then map(y, "the output", function() end) end
    ys[t - first + 1] = y
  end
  return state, ys[1] ~= nil and joined(rille.stack, ys, axis) or nil
end

local MANY <const> = 64 -- number of positions from which a warning is printed if fn is called for each
local warned = {} -- texts of the warnings printed so far

local function warn(n, why)
  local text = ("%s: %s: the plan grows with the length (%d positions), because the calls of the function may differ: %s"):format(check.line(), WHO, n, why)
  if n >= MANY and not warned[text] then io.stderr:write("rille: warning: ", text, "\n") end
  warned[text] = true
end

local function run(fn, state, xs, axis, first, stop)
  if stop - first > 1 then
    local good, last, ys = as_operator(fn, state, xs, axis, first, stop)
    if good then return last, ys end
    warn(stop - first, last)
  end
  return by_position(fn, state, xs, axis, first, stop)
end

local function scan(fn, state, xs, options)
  local o = check.options(WHO, options, {axis = 0, length = check.none, recompute = false})
  check.that(rille._is_callable(fn), "%s: expected a function, found %s", WHO, check.shown(fn))
  check.whole(WHO, "axis", o.axis, 0)
  if o.length then check.count(WHO, "length", o.length) end
  local mesh = ranks.mesh(state) or ranks.mesh(xs)
  if mesh then return ranks.run(scan, mesh, fn, state, xs, o) end
  map(state, "the state", function() end)
  local n, ys = length_of(xs, o), {}
  if not o.recompute then return run(fn, state, xs, o.axis, 0, n) end
  local size = math.ceil(math.sqrt(n))
  for first = 0, n - 1, size do
    state, ys[#ys + 1] = recompute(run, fn, state, xs, o.axis, first, math.min(first + size, n))
  end
  return state, ys[1] ~= nil and joined(rille.concat, ys, o.axis) or nil
end

return check.limited(WHO, scan)
