-- norms.lua - norms of a described decoder.

local rille = require "rille"
local layout = require "rille.base.layout"
local nn = rille.nn

-- A norm over each head, with a separate weight per head; x: (batch, heads, length, size), weight: (heads, size).
local HeadNorm = nn.Module:extend("models.HeadNorm")

function HeadNorm:init(heads, size, how)
  self.weight = nn.Parameter(rille.ones{heads, size})
  self.eps = how.eps
end

function HeadNorm:forward(x)
  local size = x.shape[4]
  local one = rille.ones({size}, {dtype = x.dtype, placement = x.placement, sbp = layout.replicated(x.placement)})
  return rille.layer_norm(x, one, nil, {eps = self.eps}) * self.weight:reshape{1, self.weight.shape[1], 1, size}
end

-- A LayerNorm without weight and bias.
local PlainNorm = nn.Module:extend("models.PlainNorm")

function PlainNorm:init(how) self.eps = how.eps end

function PlainNorm:forward(x)
  local one = rille.ones({x.shape[x.ndim]}, {dtype = x.dtype, placement = x.placement, sbp = layout.replicated(x.placement)})
  return rille.layer_norm(x, one, nil, {eps = self.eps})
end

-- Creates a norm of the decoder that c describes. part nil: the norm of hidden states of width `what`. part "q" or
-- "k": the norm of queries or keys; for these, `what` names the elements that are normalised together:
--   "all"           one norm over all heads together
--   "each"          a norm over each head, with a separate weight per head
--   "head", "late"  a norm over each head, with one weight for all heads
return function(c, what, part)
  local heads = part == "q" and c.heads or c.kv_heads
  local kind = part and c.qk_kind or c.norm
  if what == "each" then return HeadNorm(heads, c.head_dim, {eps = c.eps}) end
  local size = what == "all" and heads * c.head_dim or part and c.head_dim or what
  local how = {eps = c.eps, offset = kind:find("1$") and 1 or nil}
  if kind == "plain" then return PlainNorm{eps = 1e-5} end
  if kind:find("^rms") then return nn.RMSNorm(size, how) end
  how.bias = c.norm_bias
  if part then how.bias = c.qk_bias or false end
  return nn.LayerNorm(size, how)
end
