-- bytes.lua - int8 weights: row i of w is (bytes[i] - 128) * scale[i], rounded to nearest. Method: Dettmers et al.
-- 2022, without the separate treatment of outliers.

local rille = require "rille"

local bytes = {}

-- Quantizes w (..., in). Returns u8 values of w's shape, and scales (...), one per row.
function bytes.of(w)
  w = w:detach()
  local highest, lowest = w:max{axis = -1, keepdim = true}, w:min{axis = -1, keepdim = true}
  local largest = rille.maximum(highest, -lowest):to("f32") -- abs() would need the memory of w once more
  local scale = rille.where(largest:eq(0), 1.0, largest / 127)
  return (rille.round(w:to("f32") / scale) + 128):to("u8"):detach(), scale:squeeze(-1):to(w.dtype):detach()
end

-- With at most FEW rows of x (one token per text), a product is bound by memory bandwidth, so bytes are converted
-- inside the kernel. With more rows (prompts), it is cheaper to convert the weights once before the product.
local FEW = 32

-- Multiplies x (..., in) by the transpose of weight (out, in); returns (..., out).
function bytes.product(x, weight, scale)
  if x:numel() // x.shape[#x.shape] <= FEW then return rille.linear_int8(x, weight, scale) end
  return rille.matmul(x, (weight:to(x.dtype) - 128):transpose(0, 1)) * scale
end

return bytes
