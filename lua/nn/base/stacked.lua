-- stacked.lua - computes two or more linear layers with the same input as one product, under rille.autocast.
--
-- For wide layers one product is faster, because the input is read once, and the input's gradient is written once.
-- Autocast copies the weights to 16 bits anyway, and here that copy also stacks the weights. The layers keep their
-- parameters. The gradients of the parameters are slices of one product's result.
--
-- A weight (out, in) sharded by rows over n ranks is viewed as (n, out / n, in). The views are stacked along the
-- second dimension, and the result is viewed as (layers * out, in). Each rank then has its rows of the first layer,
-- of the second, and so on. So stacking moves no data between ranks, as long as the layers have equal layouts.

local rille = require "rille"
local layout = require "rille.base.layout"
local Linear = require "rille.nn.linear"

local stacked = {}

local function equal_shapes(a, b) return table.concat(a.shape, ",") == table.concat(b.shape, ",") end

-- Returns true if a and b are both missing, or have equal shapes and layouts.
local function alike(a, b)
  if not a or not b then return a == b end
  return a.dtype == "f32" and b.dtype == "f32" and equal_shapes(a, b) and layout.equal(a, b)
end

-- Returns true if the layers can be stacked. While a planner still chooses layouts, returns false, because stacking
-- would prevent sharding by rows. For an input of a wrong width, returns false, because the layer reports the error.
local function fits(x, layers, dtype)
  local first = layers[1]
  if not dtype or select(2, rille._tracing()) or x.dtype ~= "f32" and x.dtype ~= dtype then return false end
  if x.shape[3] ~= first.weight.shape[2] then return false end
  for _, m in ipairs(layers) do
    if getmetatable(m) ~= Linear or not m:__is_plain() then return false end
    if not alike(m.weight, first.weight) or not alike(m.bias, first.bias) then return false end
  end
  local cuts, unit = layout.shard_count(first.weight, 0)
  return unit == 1 and first.weight.shape[1] % cuts == 0
end

-- Stacks the layers' tensors called `name` (weight or bias) into one 16-bit tensor. cuts: number of ranks over which
-- a tensor's rows are sharded.
local function stack(layers, name, cuts, dtype)
  local parts, shape = {}, layers[1][name].shape
  for i, m in ipairs(layers) do parts[i] = m[name]:reshape{cuts, shape[1] // cuts, table.unpack(shape, 2)} end
  return rille.concat(parts, {axis = 1, dtype = dtype}):reshape{#layers * shape[1], table.unpack(shape, 2)}
end

local function products(x, layers, dtype)
  local weight, batch, length, out = layers[1].weight, x.shape[1], x.shape[2], {}
  local cuts, width = layout.shard_count(weight, 0), weight.shape[1]
  local y = rille.matmul(x, stack(layers, "weight", cuts, dtype):transpose(0, 1))
  if layers[1].bias then y = y + stack(layers, "bias", cuts, dtype) end
  y = y:reshape{batch, length, cuts, #layers, width // cuts}
  for i = 1, #layers do out[i] = y:slice(3, i - 1, i):reshape{batch, length, width} end
  return out
end

-- Returns the result of each layer, (batch, length, out), for x: (batch, length, in); nil if the layers cannot be
-- stacked.
function stacked.products(x, layers)
  local dtype = rille._autocast()
  return fits(x, layers, dtype) and Linear.__at_once(layers, products, x, layers, dtype) or nil
end

return stacked
