-- group_norm.lua - (x - mean) / sqrt(variance + eps) * weight + bias, where mean and variance are taken over a group
-- of channels, for each entry of the batch; x: (batch, channels, ...). Wu & He 2018.

local rille = require "rille"
local check = require "rille.base.check"
local Module = require "rille.nn.base.module"
local start = require "rille.nn.base.start"

local GroupNorm = Module:extend("nn.GroupNorm")

function GroupNorm:init(groups, channels, options)
  check.count("nn.GroupNorm", "the number of groups", groups)
  check.count("nn.GroupNorm", "the number of channels", channels)
  if channels % groups ~= 0 then
    check.fail("nn.GroupNorm: %d channels must be divisible by %d, the number of groups; %s would do", channels, groups, check.divisors(channels))
  end
  options = check.options("nn.GroupNorm", options, {eps = 1e-5})
  self.groups, self.eps = groups, check.eps("nn.GroupNorm", "eps", options.eps)
  self.weight, self.bias = start.full({channels}, 1), start.full({channels}, 0)
end

function GroupNorm:forward(x)
  local shape, channels = x.shape, self.weight.shape[1]
  check.that(x.ndim >= 2 and shape[2] == channels, "nn.GroupNorm: input must have shape (batch, %d, ...), found %s", channels,
    tostring(shape))
  local across = {1, channels}
  for i = 3, x.ndim do across[i] = 1 end
  local n = x:numel() // math.max(shape[1] * self.groups, 1) -- number of elements of a group
  local normal = rille.layer_norm(x:reshape{shape[1], self.groups, n}, {eps = self.eps})
  return normal:reshape(shape) * self.weight:reshape(across) + self.bias:reshape(across)
end

function GroupNorm:describe() return ("%d groups, %d"):format(self.groups, self.weight.shape[1]) end

return GroupNorm
