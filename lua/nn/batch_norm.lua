-- batch_norm.lua - nn.BatchNorm2d and nn.BatchNorm1d: (x - mean) / sqrt(variance + eps) * weight + bias for each channel;
-- x: (batch, channels, h, w), for BatchNorm1d (batch, channels) or (batch, channels, length). Ioffe & Szegedy 2015.
--
-- In training mode, mean and variance are computed over the whole batch (per micro-batch in a compiled step), however
-- the batch is sharded. The running statistics for eval() are buffers and are updated once per step; an empty batch
-- leaves the statistics unchanged. For 16-bit inputs, results and gradients are computed in f32 and rounded once,
-- because in f16 the square of a deviation of 256 or more overflows. So for a 16-bit input, backward keeps f32
-- values, which have twice the bytes of the input.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local Module = require "rille.nn.base.module"
local start = require "rille.nn.base.start"

local AXES <const> = {0, 2, 3} -- of a batch; a channel has one mean

local BatchNorm2d = Module:extend("nn.BatchNorm2d")

function BatchNorm2d:init(channels, options)
  local who = self.__name
  check.count(who, "the number of channels", channels)
  options = check.options(who, options, {eps = 1e-5, momentum = 0.1})
  self.eps, self.momentum = check.eps(who, "eps", options.eps), check.share(who, "momentum", options.momentum)
  self.weight, self.bias = start.full({channels}, 1), start.full({channels}, 0)
  self:buffer("running_mean", rille.zeros{channels})
  self:buffer("running_var", rille.ones{channels})
end

-- Updates a running statistic: running + momentum * (batch statistic - running). In a trace with micro-batches, the
-- batch statistic is the mean over all micro-batches.
local function follow(running, now, momentum)
  rille.no_grad(function()
    local mean = rille._trace_mean(now:to_global(layout.of(running)))
    running:copy_(running + (mean - running) * momentum)
  end)
end

-- Casts x to f32 if its dtype has 16 bits.
local function wide(x) return (x.dtype == "bf16" or x.dtype == "f16") and x:to("f32") or x end

-- Returns the mean per channel of x, and the rounding error of this mean, which matters if the mean is far from 0. The
-- rounded mean cancels out of the layer's result, so it needs no gradient. In f32 the error follows from the mean in f64;
-- in f64 it is the mean of the differences.
local function center(x, across)
  local n = x:numel() // x.shape[2]
  local exact = x:sum{axis = AXES, dtype = "f64"} / n
  local mean = exact:to(x.dtype):detach()
  if x.dtype == "f64" then return mean, (x - across(mean)):sum{axis = AXES} / n end
  return mean, (exact - mean):to(x.dtype)
end

local told -- true: the warning about micro-batches was printed

local function tell_micro_batches(self)
  local _, _, batches = rille._tracing()
  if told or (batches or 1) == 1 then return end
  io.stderr:write(("rille: warning: %s: %s: with micro_batches = %d, each micro-batch is normalised by its own mean and variance, as with "
    .. "gradient accumulation in PyTorch; nn.GroupNorm does not depend on the batch\n"):format(check.line(), self.__name, batches))
  told = true
end

-- Normalises x, (batch, channels, h, w).
local function normalize(self, x)
  local channels = self.weight.shape[1]
  check.that(x.shape[2] == channels, "%s: input must have %d channels, its dimension 1, found %d", self.__name, channels, x.shape[2])
  local function across(t) return t:reshape{1, channels, 1, 1} end
  -- rest: the mean of near
  local function normalized(near, rest, var)
    local scale = (var + self.eps):rsqrt() * self.weight
    local y = near * across(scale) + across(self.bias - rest * scale)
    return self.weight.dtype == x.dtype and y:to(x.dtype) or y
  end
  if not self.training then return normalized(wide(x) - across(self.running_mean), 0, wide(self.running_var)) end
  tell_micro_batches(self)
  return rille.per_micro_batch(function()
    local n, x = x:numel() // channels, wide(x)
    local mean, rest = center(x, across)
    local squares = rille._product_sum(x, across(mean), {axis = AXES}) -- of x - mean, in one pass over x
    local var = squares:reshape{channels} / n - rest:square()
    if n > 0 then
      follow(self.running_mean, mean + rest, self.momentum)
      follow(self.running_var, var * (n / math.max(n - 1, 1)), self.momentum)
    end
    return normalized(x - across(mean), rest, var)
  end)
end

function BatchNorm2d:forward(x)
  check.that(x.ndim == 4, "nn.BatchNorm2d: input must have 4 dimensions, (batch, channels, height, width), found %d", x.ndim)
  return normalize(self, x)
end

function BatchNorm2d:describe() return tostring(self.weight.shape[1]) end

local BatchNorm1d = BatchNorm2d:extend("nn.BatchNorm1d")

function BatchNorm1d:forward(x)
  check.that(x.ndim == 2 or x.ndim == 3, "nn.BatchNorm1d: input must have 2 or 3 dimensions, (batch, channels[, length]), found %d", x.ndim)
  return normalize(self, x:reshape{x.shape[1], x.shape[2], 1, x.shape[3] or 1}):reshape(x.shape)
end

return {BatchNorm1d = BatchNorm1d, BatchNorm2d = BatchNorm2d}
