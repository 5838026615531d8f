-- bytes.lua - weights of a byte each: row i of w is (bytes[i] - 128) * scale[i], rounded to the nearest. Dettmers et al. 2022,
-- without outliers.

local rille = require "rille"

local bytes = {}

-- Of w (..., in): u8 of its shape, and scale (...), a number a row.
function bytes.of(w)
  w = w:detach()
  local largest = w:abs():max{axis = -1, keepdim = true}:to("f32")
  local scale = rille.where(largest:eq(0), 1.0, largest / 127)
  return (rille.round(w:to("f32") / scale) + 128):to("u8"):detach(), scale:squeeze(-1):to(w.dtype):detach()
end

-- Few rows, as one token of each text has, are bounded by memory: bytes become floats on the way. Many, as a prompt has,
-- pay for making the weights floats once.
local FEW = 32

-- x (..., in) times the rows of weight (out, in): (..., out)
function bytes.product(x, weight, scale)
  if x:numel() // x.shape[#x.shape] <= FEW then return rille.linear_int8(x, weight, scale) end
  return rille.matmul(x, (weight:to(x.dtype) - 128):transpose(0, 1)) * scale
end

return bytes
