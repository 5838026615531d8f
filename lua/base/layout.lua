-- layout.lua - small helpers for tensors and their layouts.

local check = require "rille.base.check"

local layout = {}

local tensor_type
function layout.is_tensor(v)
  if type(v) ~= "userdata" then return false end
  tensor_type = tensor_type or debug.getmetatable(require("rille").zeros({}))
  return debug.getmetatable(v) == tensor_type
end

local placement_type
function layout.is_placement(v)
  if type(v) ~= "userdata" then return false end
  placement_type = placement_type or debug.getmetatable(require("rille").zeros({}).placement)
  return debug.getmetatable(v) == placement_type
end

-- Checks an optional placement.
function layout.check_placement(who, place)
  check.that(place == nil or layout.is_placement(place), "%s: placement must be a rille.placement, found %s", who,
    check.shown(place))
end

local floats = {f32 = true, f64 = true, bf16 = true, f16 = true}
function layout.is_float(t) return floats[t.dtype] or false end
function layout.is_integer(t) return not floats[t.dtype] and t.dtype ~= "bool" end

-- Returns the size in bytes of one of t's shards; shard: an entry of t:shards().
local sizes = {f32 = 4, f64 = 8, bf16 = 2, f16 = 2, i32 = 4, i64 = 8, u8 = 1, bool = 1}
function layout.shard_bytes(t, shard)
  local bytes = sizes[t.dtype]
  for _, d in ipairs(shard.shape) do bytes = bytes * d end
  return bytes
end

-- Returns the entries of a layout's text, one per mesh axis: {"B", "S(0, unit 64)"}.
function layout.entries(sbp)
  local list = {}
  for entry in sbp:gsub(" order.*", ""):gsub("^%((.*)%)$", "%1"):gsub(", unit ", ":"):gmatch("[^, ]+") do
    list[#list + 1] = (entry:gsub(":", ", unit "))
  end
  return list
end

-- Returns the dimension that an entry shards and the unit, the number of adjacent elements that the entry keeps together;
-- nil: the entry is B or P.
function layout.split_of(entry)
  local dimension, unit = entry:match("^S%((%-?%d+)[^%d]*(%d*)%)$")
  if dimension then return tonumber(dimension), tonumber(unit) or 1 end
end

-- Returns the entries of t's layout for a tensor that stores t in another shape, such as the blocks of a quantised weight,
-- which have bytes in place of columns. Converts the units to elements of that shape.
function layout.entries_for(t, shape)
  local list = layout.entries(t.sbp)
  for i, entry in ipairs(list) do
    local d, unit = layout.split_of(entry)
    local scaled = d and unit * shape[d + 1] // t.shape[d + 1]
    if d and unit > 1 then
      list[i] = scaled > 1 and shape[d + 1] % scaled == 0 and ("S(%d, unit %d)"):format(d, scaled) or ("S(%d)"):format(d)
    end
  end
  return list
end

-- Returns the number of shards into which a dimension of t is divided, and the largest unit.
function layout.shard_count(t, dimension)
  local n, most = 1, 1
  for axis, entry in ipairs(layout.entries(t.sbp)) do
    local d, unit = layout.split_of(entry)
    if d == dimension then n, most = n * t.placement.shape[axis], math.max(most, unit) end
  end
  return n, most
end

-- Returns the SBP that replicates a tensor on every rank of a placement.
function layout.replicated(placement)
  local sbp = {}
  for axis = 1, #placement.shape do sbp[axis] = "B" end
  return sbp
end

-- Returns t on the placement of x: t itself if it is there, else a copy that is replicated on that placement. Used
-- for small tensors, such as masks and positions, which every rank of a pipeline stage reads.
function layout.on_mesh_of(t, x)
  return t.placement == x.placement and t or t:to_global{placement = x.placement, sbp = layout.replicated(x.placement)}
end

-- Returns t's layout as options for creating another tensor.
function layout.of(t)
  return {placement = t.placement, sbp = t.sbp}
end

-- Returns the layout of the optimiser state for a parameter: the layout of the parameter, unless set_apart() has set
-- another one (ZeRO). set_apart() also sets the layout of the gradient.
local state = setmetatable({}, {__mode = "k"}) -- parameter -> layout of its optimiser state, {placement =, sbp =}
function layout.of_state(p)
  return state[p] or layout.of(p)
end

function layout.set_apart(p, of_state, of_gradient)
  state[p] = of_state
  p:_grad_layout(of_gradient)
end

-- Parameter -> ZeRO setting {level =, line =}: the level that a recipe set, and the line of the call that set it;
-- nil: none.
local zero = setmetatable({}, {__mode = "k"})
function layout.zero_of(p) return zero[p] end
function layout.set_zero(p, said) zero[p] = said end

function layout.rest(p)
  layout.set_apart(p, nil, nil)
  layout.set_zero(p, nil)
  p:_reshard(true)
end

function layout.equal(a, b)
  return a.sbp == b.sbp and a.placement == b.placement
end

return layout
