-- conv2d.lua - 2-D convolution; x: (batch, in, h, w), weight: (out, in / groups, kh, kw), bias: (out).

local rille = require "rille"
local check = require "rille.check"
local Module = require "rille.nn.module"
local start = require "rille.nn.start"

local Conv2d = Module:extend("nn.Conv2d")

function Conv2d:init(n_in, n_out, kernel_size, options)
  check.count("nn.Conv2d", "the number of input channels", n_in)
  check.count("nn.Conv2d", "the number of output channels", n_out)
  options = check.options("nn.Conv2d", options, {stride = 1, padding = 0, dilation = 1, groups = 1, bias = true})
  check.count("nn.Conv2d", "groups", options.groups)
  local function fits(groups) return n_in % groups == 0 and n_out % groups == 0 end
  if not fits(options.groups) then
    check.fail("nn.Conv2d: %d input and %d output channels do not divide into %d groups; %s would do", n_in, n_out, options.groups,
      check.divisors(n_in, fits))
  end
  local height, width = kernel_size, kernel_size
  if type(kernel_size) == "table" then
    check.that(#kernel_size == 2, "nn.Conv2d: a kernel size must be {height, width}, found %d sizes", #kernel_size)
    height, width = kernel_size[1], kernel_size[2]
  end
  check.count("nn.Conv2d", "the kernel's height", height)
  check.count("nn.Conv2d", "the kernel's width", width)

  local channels = n_in // options.groups
  local fan_in = channels * height * width
  self.weight = start.fan_in({n_out, channels, height, width}, fan_in)
  if options.bias then self.bias = start.fan_in({n_out}, fan_in) end
  self.how = {stride = options.stride, padding = options.padding, dilation = options.dilation, groups = options.groups}
end

function Conv2d:forward(x) return rille.conv2d(x, self.weight, self.bias, self.how) end

local usual = {stride = 1, padding = 0, dilation = 1, groups = 1}

function Conv2d:describe()
  local text = "weight {" .. table.concat(self.weight.shape, ", ") .. "}"
  for _, name in ipairs(check.sorted_keys(usual)) do
    local v = self.how[name]
    if v ~= usual[name] then text = ("%s, %s %s"):format(text, name, type(v) == "table" and table.concat(v, " x ") or v) end
  end
  return text
end

return Conv2d
