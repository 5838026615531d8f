-- scan.lua - rille.scan on local tensors (local.lua): scans the global tensors that they stand for.
--
-- An initial state that is equal on all ranks may differ between ranks after the first position. In this case the state's
-- leading axes are expanded, and the scan is recorded again.

local check = require "rille.base.check"
local locals = require "rille.per_rank.local"

local scan = {}

local DEEP <const> = 32 -- maximum nesting depth of a tree

-- Copies a tree, with leaf(v, w) in place of each v that is no plain table. w: the entry of `other` at the same place.
local function map(tree, leaf, other, depth)
  if type(tree) ~= "table" or getmetatable(tree) ~= nil then return tree ~= nil and leaf(tree, other) or nil end
  local copy, level = {}, (depth or 0) + 1
  check.that(level <= DEEP, "scan: tables may be nested %d deep, found a deeper one", DEEP)
  for key, v in pairs(tree) do copy[key] = map(v, leaf, type(other) == "table" and rawget(other, key) or nil, level) end
  return copy
end

-- Returns the mesh of the first local tensor in a tree; nil: none.
function scan.mesh(tree)
  local mesh
  map(tree, function(x) mesh = mesh or locals.is(x) and x.mesh end)
  return mesh
end

local function type_text(x)
  return locals.is(x) and ("%s{%s}"):format(x.dtype, table.concat(x.shape, ", ")) or check.shown(x)
end

local function value_of(x)
  check.that(locals.is(x), "per_rank: scan: expected a local tensor, found %s; mesh:replicated(t) makes one of a global tensor", check.shown(x))
  return x.value
end

-- Returns x with the leading axes of `like`, if both are local tensors.
local function spread(x, like) return locals.is(x) and locals.is(like) and locals.spread(x, {like}) or x end

-- Runs fn(state, x), a function on local tensors, through `run`, which is rille.scan on global tensors.
function scan.run(run, mesh, fn, state, xs, o)
  local grows, y
  local function wrapped(tree) return map(tree, function(x) return locals.wrap(mesh, x) end) end
  local function values(tree) return map(tree, value_of) end
  local function note(x, like)
    check.that(type_text(x) == type_text(like), "scan: the state must have the same shape and dtype in every call of the function; expected %s, found %s",
      type_text(x), type_text(like))
    grows = grows or not rawequal(spread(x, like), x)
  end
  local function slices(x)
    check.that(not locals.is(x) or o.axis < x.ndim, "scan: xs must have the axis %d, found %s", o.axis, type_text(x))
    return value_of(x)
  end
  local function step(before, x)
    if grows then return before, y end -- the results are discarded
    local was, after = wrapped(before), nil
    after, y = fn(was, wrapped(x))
    y = values(y)
    map(was, note, after)
    if not grows then return values(map(after, spread, was)), y end
    state = map(state, spread, after)
    return before, y
  end
  local options = {axis = o.axis + mesh.naxis, length = o.length, recompute = o.recompute}
  repeat
    grows = false
    local last, ys = run(step, values(state), map(xs, slices), options)
    if not grows then return wrapped(last), wrapped(ys) end
  until false
end

return scan
