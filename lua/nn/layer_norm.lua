-- layer_norm.lua - (x - mean) / sqrt(variance + eps) * (weight + offset) + bias over the last axes. Ba, Kiros & Hinton
-- 2016.

local rille = require "rille"
local check = require "rille.base.check"
local Module = require "rille.nn.base.module"
local start = require "rille.nn.base.start"

local LayerNorm = Module:extend("nn.LayerNorm")

-- shape: the size of the last axis, or a list of the sizes of the normalised axes.
function LayerNorm:init(shape, options)
  options = check.options("nn.LayerNorm", options, {eps = 1e-5, bias = true, offset = 0})
  start.norm(self, shape, options.offset)
  if options.bias then self.bias = start.full(self.weight.shape, 0) end
  self.eps = check.eps("nn.LayerNorm", "eps", options.eps)
end

function LayerNorm:forward(x)
  return rille.layer_norm(x, self.offset and self.weight + self.offset or self.weight, self.bias, {eps = self.eps})
end

function LayerNorm:describe() return table.concat(self.weight.shape, ", ") end

return LayerNorm
