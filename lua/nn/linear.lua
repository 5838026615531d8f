-- linear.lua - y = x w^T + b; x: (..., in), w: (out, in), b: (out).

local rille = require "rille"
local check = require "rille.base.check"
local Module = require "rille.nn.base.module"
local biased = require "rille.nn.base.biased"
local start = require "rille.nn.base.start"

local Linear = Module:extend("nn.Linear")

function Linear:init(n_in, n_out, options)
  check.count("nn.Linear", "the size of the input", n_in)
  check.count("nn.Linear", "the size of the output", n_out)
  options = check.options("nn.Linear", options, {bias = true})
  self.weight = start.fan_in({n_out, n_in}, n_in)
  if options.bias then self.bias = start.fan_in({n_out}, n_in) end
end

-- Checks the width of x before the operator does, because the operator's message would name its operands, the input
-- and the transposed weight.
local function check_width(weight, x)
  local shape, width = x.shape, weight.shape[2]
  check.that(weight.ndim == 2, "nn.Linear: weight must have 2 dimensions, (output, input), found %d", weight.ndim)
  if #shape > 0 and shape[#shape] ~= width then
    check.fail("nn.Linear: the last dimension of the input must be %d, found %d", width, shape[#shape])
  end
end

function Linear:forward(x)
  check_width(self.weight, x)
  -- Not a tail call: a tail call would remove self from the stack, and errors could not name the module.
  local y = biased(rille.matmul(x, self.weight:transpose(0, 1)), self.bias)
  return y
end

function Linear:describe()
  local shape = self.weight.shape
  return ("%d, %d"):format(shape[2], shape[1])
end

return Linear
