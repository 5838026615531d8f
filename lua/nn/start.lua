-- start.lua - the values parameters start with.
--
-- Random ones are drawn with rille.rand and rille.randn, so they depend on the
-- seed and the position in the whole tensor, never on where it lies.

local rille = require "rille"
local check = require "rille.check"
local layout = require "rille.layout"

local start = {}

-- A leaf with t's value, that gradients are computed for.
function start.parameter(t)
  check.that(layout.is_tensor(t), "nn.Parameter takes a tensor, not %s", check.shown(t))
  local p = t:detach()
  p.requires_grad = true
  return p
end

-- Uniform in [-bound, bound).
function start.uniform(shape, bound)
  return start.parameter(rille.rand(shape) * (2 * bound) - bound)
end

function start.normal(shape, deviation)
  return start.parameter(rille.randn(shape) * (deviation or 1))
end

function start.full(shape, value)
  return rille.full(shape, value, {requires_grad = true})
end

-- What PyTorch's Linear and Conv start with: He et al. 2015 with a = sqrt(5), which is 1 / sqrt(fan_in).
function start.fan_in(shape, fan_in)
  return start.uniform(shape, 1 / math.sqrt(fan_in))
end

return start
