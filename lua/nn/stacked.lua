-- stacked.lua - linear layers of one input as one product, under rille.autocast.
--
-- Of wide layers one product is faster than several: the input is read once, and so is its gradient written. Their weights
-- are copied to 16 bits each time anyway; here they are stacked on the way, in one pass. What is learned stays with the
-- layers, whose gradients are windows of one product's result.
--
-- A weight (out, in) that is cut by rows over n ranks is (n, out / n, in); stacked along the second dimension, and made
-- (layers * out, in) again, each rank has what it had: its rows of the first layer, of the second... So nothing moves,
-- however the layers lie, if only they lie alike.

local rille = require "rille"
local layout = require "rille.layout"
local Linear = require "rille.nn.linear"

local stacked = {}

local function equal_shapes(a, b) return table.concat(a.shape, ",") == table.concat(b.shape, ",") end

-- Are a and b both missing, or alike but for their values?
local function alike(a, b)
  if not a or not b then return a == b end
  return a.dtype == "f32" and b.dtype == "f32" and equal_shapes(a, b) and layout.equal(a, b)
end

-- A planner could not cut by rows what is stacked before it knows over how many ranks. An input of another width a layer
-- refuses in its own words.
local function fits(x, layers, dtype)
  local first = layers[1]
  if not dtype or select(2, rille._tracing()) or x.dtype ~= "f32" and x.dtype ~= dtype then return false end
  if x.shape[3] ~= first.weight.shape[2] then return false end
  for _, m in ipairs(layers) do
    if getmetatable(m) ~= Linear or not m:__is_plain() then return false end
    if not alike(m.weight, first.weight) or not alike(m.bias, first.bias) then return false end
  end
  return first.weight.shape[1] % layout.ways(first.weight, 0) == 0
end

-- What the layers have under that name, as one tensor of 16 bits.
local function stack(layers, name, cuts, dtype)
  local parts, shape = {}, layers[1][name].shape
  for i, m in ipairs(layers) do parts[i] = m[name]:reshape{cuts, shape[1] // cuts, table.unpack(shape, 2)} end
  return rille.concat(parts, {axis = 1, dtype = dtype}):reshape{#layers * shape[1], table.unpack(shape, 2)}
end

local function products(x, layers, dtype)
  local weight, batch, length, out = layers[1].weight, x.shape[1], x.shape[2], {}
  local cuts, width = layout.ways(weight, 0), weight.shape[1]
  local y = rille.matmul(x, stack(layers, "weight", cuts, dtype):transpose(0, 1))
  if layers[1].bias then y = y + stack(layers, "bias", cuts, dtype) end
  y = y:reshape{batch, length, cuts, #layers, width // cuts}
  for i = 1, #layers do out[i] = y:slice(3, i - 1, i):reshape{batch, length, width} end
  return out
end

-- x: (batch, length, in). What each of the layers gives, (batch, length, out); nil: they are not to be stacked.
function stacked.products(x, layers)
  local dtype = rille._autocast()
  return fits(x, layers, dtype) and Linear.__at_once(layers, products, x, layers, dtype) or nil
end

return stacked
