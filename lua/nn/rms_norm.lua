-- rms_norm.lua - x / sqrt(mean(x^2) + eps) * (weight + offset) over the last axes. Zhang & Sennrich 2019.

local rille = require "rille"
local check = require "rille.check"
local Module = require "rille.nn.module"
local start = require "rille.nn.start"

local RMSNorm = Module:extend("nn.RMSNorm")

-- shape: the size of the last axis, or a list of the last axes' sizes.
function RMSNorm:init(shape, options)
  options = check.options("nn.RMSNorm", options, {eps = check.none, offset = 0})
  shape = type(shape) == "table" and shape or {shape}
  check.that(#shape > 0, "nn.RMSNorm: expected the sizes of the last axes, at least one, found none")
  for i = 1, #shape do check.count("nn.RMSNorm", "a size", shape[i]) end
  check.number("nn.RMSNorm", "offset", options.offset, -math.huge)
  self.weight = start.full(shape, 1 - options.offset)
  self.offset = options.offset ~= 0 and options.offset or nil
  if options.eps ~= nil then check.eps("nn.RMSNorm", "eps", options.eps) end
  self.how = {eps = options.eps}
end

function RMSNorm:forward(x)
  return rille.rms_norm(x, self.offset and self.weight + self.offset or self.weight, self.how)
end

function RMSNorm:describe() return table.concat(self.weight.shape, ", ") end

return RMSNorm
