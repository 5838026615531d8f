-- attention.lua - attention with several heads. Vaswani et al. 2017.
--
-- q, k, v: (batch, length, d). Each is projected, cut into heads of d / heads,
-- attended per head, joined and projected again. The four projections are
-- Linear layers, so that a split of their weights by rows (q, k, v) and columns
-- (out) is a split by heads.

local rille = require "rille"
local check = require "rille.check"
local Module = require "rille.nn.module"
local Linear = require "rille.nn.linear"

local MultiheadAttention = Module:extend("nn.MultiheadAttention")

function MultiheadAttention:init(d, heads, options)
  check.count("nn.MultiheadAttention", "d", d)
  check.count("nn.MultiheadAttention", "the number of heads", heads)
  check.that(d % heads == 0, "nn.MultiheadAttention: d = %d does not divide into %d heads", d, heads)
  options = check.options("nn.MultiheadAttention", options, {is_causal = false, bias = true})
  self.heads, self.how = heads, {is_causal = options.is_causal}
  self.q_proj = Linear(d, d, {bias = options.bias})
  self.k_proj = Linear(d, d, {bias = options.bias})
  self.v_proj = Linear(d, d, {bias = options.bias})
  self.out_proj = Linear(d, d, {bias = options.bias})
end

-- (batch, length, d) -> (batch, heads, length, d / heads)
local function split_heads(x, heads)
  local batch, length, d = x.shape[1], x.shape[2], x.shape[3]
  return x:reshape{batch, length, heads, d // heads}:permute{0, 2, 1, 3}
end

local function join_heads(x)
  local batch, heads, length, size = x.shape[1], x.shape[2], x.shape[3], x.shape[4]
  return x:permute{0, 2, 1, 3}:reshape{batch, length, heads * size}
end

-- k defaults to q, v to k. mask: bool, true is seen; else it is added.
function MultiheadAttention:forward(q, k, v, mask)
  k = k or q
  v = v or k
  check.that(q.ndim == 3, "nn.MultiheadAttention: the input is (batch, length, d), not of %d dimensions", q.ndim)
  local attended = rille.scaled_dot_product_attention(split_heads(self.q_proj(q), self.heads),
    split_heads(self.k_proj(k), self.heads), split_heads(self.v_proj(v), self.heads), mask, self.how)
  return self.out_proj(join_heads(attended))
end

function MultiheadAttention:describe() return ("%d heads"):format(self.heads) end

return MultiheadAttention
