-- int8_experts.lua - nn.MixtureOfExperts for inference with int8 expert weights (bytes.lua). The router is not
-- quantized, because it is small, and rounding errors could change its choices.
--
-- up: u8 (experts, hidden, d), up_scale: (experts, hidden); down: u8 (experts, d, hidden), down_scale: (experts,
-- hidden). Both scales are per hidden unit, so all experts are computed as one layer with experts * hidden hidden
-- units. The hidden values are multiplied by the router's weights and by down_scale, and the second product sums over
-- the experts.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local MixtureOfExperts = require "rille.nn.experts"
local bytes = require "rille.nn.bytes"

local Int8Experts = MixtureOfExperts:extend("nn.Int8Experts")

Int8Experts.parallel = {expert = {"up", "down", "up_scale", "down_scale"}}

-- Quantizes an nn.MixtureOfExperts and shares its router.
function Int8Experts:init(mixture)
  check.that(type(mixture) == "table" and mixture.up and mixture.router, "nn.Int8Experts: expected an nn.MixtureOfExperts, found %s",
    check.shown(mixture))
  self.experts, self.top_k, self.router = mixture.experts, mixture.top_k, mixture.router
  local up, up_scale = bytes.of(mixture.up:transpose(1, 2))
  local down, down_scale = bytes.of(mixture.down)
  self:buffer("up", up)
  self:buffer("up_scale", up_scale)
  self:buffer("down", down:transpose(1, 2):clone():detach())
  self:buffer("down_scale", down_scale)
end

function Int8Experts:forward(x)
  local shape, d = x.shape, x.shape[x.ndim]
  local n, experts, hidden = x:numel() // d, self.experts, self.up.shape[2]
  local rows = x:reshape{n, d}
  local gates = self:gates(rows):reshape{n, experts, 1}
  local wide = bytes.product(rows, self.up:reshape{experts * hidden, d}, self.up_scale:reshape{-1}):gelu()
  wide = wide:reshape{n, experts, hidden} * gates * self.down_scale
  local down = self.down:permute{1, 0, 2}:reshape{d, experts * hidden}
  local ones = rille.ones({d}, {dtype = wide.dtype, placement = wide.placement, sbp = layout.replicated(wide.placement)})
  return bytes.product(wide:reshape{n, experts * hidden}, down, ones):reshape(shape)
end

return Int8Experts
