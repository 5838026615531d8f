-- int8_linear.lua - nn.Linear for inference with int8 weights (bytes.lua); weight: u8 (out, in), scale: (out).
--
-- Compared with f32, weights need a quarter of the memory and of the memory traffic.

local check = require "rille.base.check"
local Module = require "rille.nn.base.module"
local biased = require "rille.nn.base.biased"
local bytes = require "rille.nn.bytes"

local Int8Linear = Module:extend("nn.Int8Linear")

-- Quantizes an nn.Linear and shares its bias.
function Int8Linear:init(linear)
  check.that(type(linear) == "table" and linear.weight, "nn.Int8Linear: expected an nn.Linear, found %s", check.shown(linear))
  local weight, scale = bytes.of(linear.weight)
  self:buffer("weight", weight)
  self:buffer("scale", scale)
  if linear.bias then self.bias = linear.bias end
end

function Int8Linear:forward(x)
  return biased(bytes.product(x, self.weight, self.scale), self.bias)
end

function Int8Linear:describe()
  local shape = self.weight.shape
  return ("%d, %d"):format(shape[2], shape[1])
end

return Int8Linear
