-- functions.lua - layers without parameters: activations, pooling, reshaping, losses. Each layer applies one function
-- of Rille.

local check = require "rille.base.check"
local Module = require "rille.nn.base.module"

local layers = {}

-- Creates the class nn.NAME. methods: forward, and optionally init and describe.
local function make(name, methods)
  local class = Module:extend("nn." .. name)
  for method, fn in pairs(methods) do class[method] = fn end
  layers[name] = class
end

-- ---- layers that apply a function without options ----

for name, method in pairs{ReLU = "relu", Sigmoid = "sigmoid", SiLU = "silu", Softplus = "softplus", Tanh = "tanh"} do
  make(name, {forward = function(self, x) return x[method](x) end})
end

make("Identity", {forward = function(self, x) return x end})

-- ---- layers that apply a function with one number ----

-- Creates a class whose only setting is a number, stored in `field`. checked(who, field, value) checks the number.
local function make_with_number(name, field, default, checked, apply)
  make(name, {
    init = function(self, value)
      if value == nil then value = default end
      self[field] = checked("nn." .. name, field, value)
    end,
    forward = function(self, x) return apply(x, self[field]) end,
    describe = function(self) return ("%s = %g"):format(field, self[field]) end})
end

make_with_number("Softmax", "axis", -1, check.integer, function(x, axis) return x:softmax(axis) end)
make_with_number("LogSoftmax", "axis", -1, check.integer, function(x, axis) return x:log_softmax(axis) end)
make_with_number("LeakyReLU", "slope", 0.01, check.finite, function(x, slope) return x:gt(0):where(x, x * slope) end)

-- x where x > 0, else alpha (e^x - 1). Clevert, Unterthiner & Hochreiter 2016. e^x is computed only for x <= 0,
-- because it may overflow for greater x.
make_with_number("ELU", "alpha", 1, check.finite, function(x, alpha)
  local positive = x:gt(0)
  return positive:where(x, (positive:where(0, x):exp() - 1) * alpha)
end)

-- Repeats each pixel of an image batch (batch, channels, height, width) n times in both directions.
make_with_number("Upsample", "scale", nil, check.count, function(x, n)
  check.that(x.ndim == 4, "nn.Upsample: input must have 4 dimensions, (batch, channels, height, width), found %d", x.ndim)
  local batch, channels, h, w = table.unpack(x.shape)
  return x:reshape{batch, channels, h, 1, w, 1}:expand{batch, channels, h, n, w, n}:reshape{batch, channels, h * n, w * n}
end)

-- ---- layers that apply a function with options ----

-- Creates a class whose options, a table in the field `how`, are passed to its forward.
local function make_with_options(name, names, forward)
  local known = {}
  for option in names:gmatch("%S+") do known[option] = check.none end
  make(name, {init = function(self, options) self.how = check.options("nn." .. name, options, known) end, forward = forward})
end

make_with_options("GELU", "approximate", function(self, x) return x:gelu(self.how) end)
make_with_options("MSELoss", "reduction", function(self, x, y) return x:mse_loss(y, self.how) end)
make_with_options("CrossEntropyLoss", "reduction ignore_index label_smoothing",
  function(self, logits, labels) return logits:cross_entropy(labels, self.how) end)

for name, row in pairs{MaxPool2d = {"max_pool2d", "dilation"}, AvgPool2d = {"avg_pool2d", "count_include_pad"}} do
  local who, method, own = "nn." .. name, row[1], row[2]
  make(name, {
    init = function(self, kernel_size, options)
      check.sizes(who, "kernel_size", kernel_size)
      self.how = check.options(who, options,
        {stride = check.none, padding = check.none, ceil_mode = check.none, [own] = check.none})
      self.how.kernel_size = kernel_size
    end,
    forward = function(self, x) return x[method](x, self.how) end,
    describe = function(self)
      local size = self.how.kernel_size
      return "kernel_size = " .. (type(size) == "table" and table.concat(size, " x ") or tostring(size))
    end})
end

-- ---- layers that reshape their input ----

make("Flatten", {
  init = function(self, first, last)
    self.first = check.integer("nn.Flatten", "first", first == nil and 1 or first)
    self.last = check.integer("nn.Flatten", "last", last == nil and -1 or last)
  end,
  forward = function(self, x)
    local n, shape, joined = x.ndim, {}, 1
    local first, last = self.first < 0 and self.first + n or self.first, self.last < 0 and self.last + n or self.last
    check.that(first >= 0 and first <= last and last < n,
      "nn.Flatten: axes %d to %d must be axes of the input, in this order, found an input of %d dimensions", self.first, self.last, n)
    for axis = 0, n - 1 do
      if axis >= first and axis <= last then joined = joined * x.shape[axis + 1] end
      if axis == last then shape[#shape + 1] = joined end
      if axis < first or axis > last then shape[#shape + 1] = x.shape[axis + 1] end
    end
    return x:reshape(shape)
  end,
  describe = function(self) return ("%d, %d"):format(self.first, self.last) end})

return layers
