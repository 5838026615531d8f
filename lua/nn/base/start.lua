-- start.lua - initial values of parameters.
--
-- Random values come from rille.rand and rille.randn, so they depend on the seed and the position in the global tensor,
-- never on the layout.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"

local start = {}

-- Creates a leaf with t's value that requires a gradient.
function start.parameter(t)
  check.that(layout.is_tensor(t), "nn.Parameter: expected a tensor, found %s", check.shown(t))
  check.that(layout.is_float(t), "nn.Parameter: expected a tensor of a float dtype, found %s", t.dtype)
  local p = t:detach()
  p.requires_grad = true
  return p
end

-- Creates a parameter with uniform values in [-bound, bound).
function start.uniform(shape, bound)
  return start.parameter(rille.rand(shape) * (2 * bound) - bound)
end

function start.normal(shape, deviation)
  return start.parameter(rille.randn(shape) * (deviation or 1))
end

function start.full(shape, value)
  return rille.full(shape, value, {requires_grad = true})
end

-- Sets the weight and the offset of a norm over the last axes. shape: the size of the last axis, or a list of sizes.
function start.norm(self, shape, offset)
  shape = type(shape) == "table" and shape or {shape}
  check.that(#shape > 0, "%s: expected the sizes of the last axes, at least one, found none", self.__name)
  for i = 1, #shape do check.count(self.__name, "a size", shape[i]) end
  check.number(self.__name, "offset", offset, -math.huge)
  self.weight = start.full(shape, 1 - offset)
  self.offset = offset ~= 0 and offset or nil
end

-- Creates a parameter initialised as in PyTorch's Linear and Conv: uniform with bound = 1 / sqrt(fan_in) (He et al.
-- 2015, a = sqrt(5)).
function start.fan_in(shape, fan_in)
  return start.uniform(shape, 1 / math.sqrt(fan_in))
end

return start
