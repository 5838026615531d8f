-- rms_norm.lua - x / sqrt(mean(x^2) + eps) * (weight + offset) over the last axes. Zhang & Sennrich 2019.

local rille = require "rille"
local check = require "rille.base.check"
local Module = require "rille.nn.base.module"
local start = require "rille.nn.base.start"

local RMSNorm = Module:extend("nn.RMSNorm")

-- shape: the size of the last axis, or a list of the sizes of the normalised axes.
function RMSNorm:init(shape, options)
  options = check.options("nn.RMSNorm", options, {eps = check.none, offset = 0})
  start.norm(self, shape, options.offset)
  if options.eps ~= nil then check.eps("nn.RMSNorm", "eps", options.eps) end
  self.how = {eps = options.eps}
end

function RMSNorm:forward(x)
  return rille.rms_norm(x, self.offset and self.weight + self.offset or self.weight, self.how)
end

function RMSNorm:describe() return table.concat(self.weight.shape, ", ") end

return RMSNorm
