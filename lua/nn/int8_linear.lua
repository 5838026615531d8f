-- int8_linear.lua - nn.Linear for inference with a byte a weight: row i of w is (weight[i] - 128) * scale[i], rounded to
-- the nearest; weight: u8 (out, in), scale: (out). Dettmers et al. 2022, without outliers.
--
-- A quarter of the memory is kept, and moved.

local rille = require "rille"
local check = require "rille.check"
local Module = require "rille.nn.module"

local Int8Linear = Module:extend("nn.Int8Linear")

-- Of an nn.Linear, whose bias it takes over.
function Int8Linear:init(linear)
  check.that(type(linear) == "table" and linear.weight, "nn.Int8Linear takes an nn.Linear, not %s", check.shown(linear))
  local weight = linear.weight:detach()
  local largest = weight:abs():max{axis = 1, keepdim = true}:to("f32")
  local scale = rille.where(largest:eq(0), 1.0, largest / 127)
  self:buffer("weight", (rille.round(weight:to("f32") / scale) + 128):to("u8"):detach())
  self:buffer("scale", scale:reshape{-1}:to(weight.dtype):detach())
  if linear.bias then self.bias = linear.bias end
end

-- Few rows, as one token of each text has, are bounded by memory: bytes become floats on the way. Many, as a prompt has,
-- pay for making the weights floats once.
local FEW = 32

function Int8Linear:forward(x)
  local y
  if x:numel() // x.shape[#x.shape] <= FEW then
    y = rille.linear_int8(x, self.weight, self.scale)
  else
    y = rille.matmul(x, (self.weight:to(x.dtype) - 128):transpose(0, 1)) * self.scale
  end
  return self.bias and y + self.bias:to(y.dtype) or y
end

function Int8Linear:describe()
  local shape = self.weight.shape
  return ("%d, %d"):format(shape[2], shape[1])
end

return Int8Linear
