-- conv.lua - nn.Conv2d and nn.Conv1d: convolutions. x: (batch, in, h, w) or (batch, in, length); weight: (out, in / groups,
-- kh, kw) or (out, in / groups, k); bias: (out).

local rille = require "rille"
local check = require "rille.base.check"
local Module = require "rille.nn.base.module"
local start = require "rille.nn.base.start"

local Conv2d, Conv1d = Module:extend("nn.Conv2d"), Module:extend("nn.Conv1d")

-- Sets the fields of a convolution. sizes: sizes of the kernel.
local function build(self, n_in, n_out, sizes, options)
  local who = self.__name
  check.count(who, "the number of input channels", n_in)
  check.count(who, "the number of output channels", n_out)
  options = check.options(who, options, {stride = 1, padding = 0, dilation = 1, groups = 1, bias = true})
  check.count(who, "groups", options.groups)
  local function fits(groups) return n_in % groups == 0 and n_out % groups == 0 end
  if not fits(options.groups) then
    check.fail("%s: %d input and %d output channels must be divisible by groups = %d; %s would do", who, n_in, n_out, options.groups,
      check.divisors(n_in, fits))
  end
  local channels = n_in // options.groups
  local fan_in = channels
  for _, size in ipairs(sizes) do fan_in = fan_in * size end
  self.weight = start.fan_in({n_out, channels, table.unpack(sizes)}, fan_in)
  if options.bias then self.bias = start.fan_in({n_out}, fan_in) end
  self.how = {stride = options.stride, padding = options.padding, dilation = options.dilation, groups = options.groups}
end

function Conv2d:init(n_in, n_out, kernel_size, options)
  build(self, n_in, n_out, {check.sizes("nn.Conv2d", "kernel_size", kernel_size)}, options)
end

function Conv2d:forward(x) return rille.conv2d(x, self.weight, self.bias, self.how) end

function Conv1d:init(n_in, n_out, kernel_size, options)
  build(self, n_in, n_out, {check.count("nn.Conv1d", "kernel_size", kernel_size)}, options)
  for name, least in pairs{stride = 1, padding = 0, dilation = 1} do check.whole("nn.Conv1d", name, self.how[name], least) end
end

-- Computes the convolution as a Conv2d of images of height 1.
function Conv1d:forward(x)
  check.that(x.ndim == 3, "nn.Conv1d: input must have 3 dimensions, (batch, channels, length), found %d", x.ndim)
  local how = self.how
  return rille.conv2d(x:unsqueeze(2), self.weight:unsqueeze(2), self.bias, {stride = {1, how.stride}, padding = {0, how.padding},
    dilation = {1, how.dilation}, groups = how.groups}):squeeze(2)
end

local usual = {stride = 1, padding = 0, dilation = 1, groups = 1}

function Conv2d:describe()
  local text = "weight {" .. table.concat(self.weight.shape, ", ") .. "}"
  for _, name in ipairs(check.sorted_keys(usual)) do
    local v = self.how[name]
    if v ~= usual[name] then text = ("%s, %s %s"):format(text, name, type(v) == "table" and table.concat(v, " x ") or v) end
  end
  return text
end

Conv1d.describe = Conv2d.describe

return {Conv1d = Conv1d, Conv2d = Conv2d}
