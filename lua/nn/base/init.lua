-- init.lua - initialises parameters in place, with the names of torch.nn.init: nn.init.normal_(p, 0, 0.02).
--
-- Random values depend on the seed and the position in the global tensor, never on the layout. Values are lazy: a
-- value that is overwritten before it is read is never generated.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"

local init = {}

local function like(p, how)
  how = how or layout.of(p)
  how.dtype = p.dtype
  return how
end

local function check_tensor(name, p)
  check.that(layout.is_tensor(p), "nn.init.%s: expected a tensor, found %s", name, check.shown(p))
end

local function set(name, p, value)
  check_tensor(name, p)
  check.that(layout.is_float(p) or name == "constant_", "nn.init.%s: expected a tensor of a float dtype, found %s", name, p.dtype)
  rille.no_grad(function() p:copy_(value()) end)
  return p
end

function init.constant_(p, value)
  check.that(type(value) == "number", "nn.init.constant_: value must be a number, found %s", check.quoted(value))
  return set("constant_", p, function() return rille.full(p.shape, value, like(p)) end)
end

function init.zeros_(p) return init.constant_(p, 0) end
function init.ones_(p) return init.constant_(p, 1) end

function init.normal_(p, mean, std)
  check.that(mean == nil or type(mean) == "number", "nn.init.normal_: mean must be a number, found %s", check.shown(mean))
  if std ~= nil then check.number("nn.init.normal_", "std", std, 0) end
  return set("normal_", p, function() return rille.randn(p.shape, like(p)) * (std or 1) + (mean or 0) end)
end

-- Fills p with uniform random values in [a, b).
function init.uniform_(p, a, b)
  a, b = a or 0, b or 1
  check.that(type(a) == "number" and type(b) == "number" and a <= b, "nn.init.uniform_: expected two numbers, the smaller first, found %s and %s",
    check.shown(a), check.shown(b))
  return set("uniform_", p, function() return rille.rand(p.shape, like(p)) * (b - a) + a end)
end

-- Returns the fan-in and fan-out of a weight {out, in, ...}: `in` and `out`, each multiplied by the sizes of the
-- further axes.
local function fans(name, p)
  check_tensor(name, p)
  check.that(p.ndim >= 2, "nn.init.%s: expected a tensor of at least 2 dimensions, found %s", name, tostring(p.shape))
  local field = 1
  for i = 3, p.ndim do field = field * p.shape[i] end
  return p.shape[2] * field, p.shape[1] * field
end

-- Returns the option gain, a factor of the values; default 1. Used by Xavier initialisation (Glorot & Bengio 2010).
local function check_gain(name, gain)
  return gain == nil and 1 or check.number("nn.init." .. name, "gain", gain, 0)
end

function init.xavier_uniform_(p, gain)
  local n_in, n_out = fans("xavier_uniform_", p)
  local bound = check_gain("xavier_uniform_", gain) * math.sqrt(6 / (n_in + n_out))
  return init.uniform_(p, -bound, bound)
end

function init.xavier_normal_(p, gain)
  local n_in, n_out = fans("xavier_normal_", p)
  return init.normal_(p, 0, check_gain("xavier_normal_", gain) * math.sqrt(2 / (n_in + n_out)))
end

-- Initialises p for layers followed by ReLU (He et al. 2015).
function init.kaiming_uniform_(p)
  local bound = math.sqrt(6 / fans("kaiming_uniform_", p))
  return init.uniform_(p, -bound, bound)
end

function init.kaiming_normal_(p) return init.normal_(p, 0, math.sqrt(2 / fans("kaiming_normal_", p))) end

return check.names("nn.init", init)
