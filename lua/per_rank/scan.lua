-- scan.lua - rille.scan on local tensors (local.lua): scans the global tensors behind them.
--
-- A local state that is equal on all ranks may differ after one position. Then the state's leading axes are expanded, and
-- the scan is recorded again.

local check = require "rille.base.check"
local locals = require "rille.per_rank.local"

local scan = {}

-- Copies a tree, with leaf(v, w) in place of each v that is no plain table. w: the entry of `other` at the same place.
local function map(tree, leaf, other)
  if type(tree) ~= "table" or getmetatable(tree) ~= nil then return tree ~= nil and leaf(tree, other) or nil end
  local copy = {}
  for key, v in pairs(tree) do copy[key] = map(v, leaf, type(other) == "table" and rawget(other, key) or nil) end
  return copy
end

-- Returns the mesh of the first local tensor in a tree; nil: none.
function scan.mesh(tree)
  local mesh
  map(tree, function(x) mesh = mesh or locals.is(x) and x.mesh end)
  return mesh
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
  local function note(x, like) grows = grows or not rawequal(spread(x, like), x) end
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
    local last, ys = run(step, values(state), values(xs), options)
    if not grows then return wrapped(last), wrapped(ys) end
  until false
end

return scan
