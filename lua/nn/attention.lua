-- attention.lua - attention with several heads. Vaswani et al. 2017.
--
-- q, k, v: (batch, length, d). Each is projected, cut into heads of d / heads,
-- attended per head, joined and projected again. The four projections are
-- Linear layers, so that a split of their weights by rows (q, k, v) and columns
-- (out) is a split by heads; under rille.autocast those of one input are one
-- product (stacked.lua). With fewer heads for keys and values (kv_heads) each of
-- those serves heads / kv_heads queries (Ainslie et al. 2023).

local rille = require "rille"
local check = require "rille.check"
local Module = require "rille.nn.module"
local Linear = require "rille.nn.linear"
local rotary = require "rille.nn.rotary"
local stacked = require "rille.nn.stacked"

local MultiheadAttention = Module:extend("nn.MultiheadAttention")

local who = "nn.MultiheadAttention"

function MultiheadAttention:init(d, heads, options)
  check.count(who, "d", d)
  check.count(who, "the number of heads", heads)
  if d % heads ~= 0 then
    check.fail("%s: d = %d does not divide into %d heads; %s would do", who, d, heads, check.divisors(d))
  end
  options = check.options(who, options, {is_causal = false, bias = true, kv_heads = heads, rotary = check.none})
  check.count(who, "kv_heads", options.kv_heads)
  if heads % options.kv_heads ~= 0 then
    check.fail("%s: %d heads do not divide into groups for %d kv_heads; %s would do", who, heads, options.kv_heads,
      check.divisors(heads))
  end
  check.that(options.rotary == nil or rotary.is(options.rotary), "%s: rotary is an nn.Rotary, not %s", who,
    check.shown(options.rotary))
  local few = d // heads * options.kv_heads
  self.heads, self.kv_heads, self.is_causal, self.rotary = heads, options.kv_heads, options.is_causal, options.rotary
  self.q_proj = Linear(d, d, {bias = options.bias})
  self.k_proj = Linear(d, few, {bias = options.bias})
  self.v_proj = Linear(d, few, {bias = options.bias})
  self.out_proj = Linear(d, d, {bias = options.bias})
end

-- (batch, length, heads * size) -> (batch, heads, length, size)
local function split_heads(x, heads)
  local batch, length, d = x.shape[1], x.shape[2], x.shape[3]
  return x:reshape{batch, length, heads, d // heads}:permute{0, 2, 1, 3}
end

-- (batch, heads, length, size), or heads in two dimensions, as groups -> (batch, length, heads * size)
local function join_heads(x)
  local n, shape = x.ndim, x.shape
  local heads = n == 4 and shape[2] or shape[2] * shape[3]
  return x:permute(n == 4 and {0, 2, 1, 3} or {0, 3, 1, 2, 4}):reshape{shape[1], shape[n - 1], heads * shape[n]}
end

-- Dimension 1, of heads, as groups of heads that share keys and values: (batch, groups, heads of a group, ...).
local function in_groups(x, groups)
  local shape = x.shape
  local heads = shape[2]
  shape[2] = math.min(groups, heads)
  table.insert(shape, 3, heads // shape[2])
  return x:reshape(shape)
end

-- Attention; of groups of heads where each group's keys and values are there once.
local function attend(q, k, v, mask, options)
  local heads, groups = q.shape[2], k.shape[2]
  if heads == groups then return rille.scaled_dot_product_attention(q, k, v, mask, options) end
  if mask and mask.ndim > 2 then
    local n = mask.shape[mask.ndim - 2]
    check.that(n == 1 or n == heads, "%s: a mask is of 1 or %d heads, not of %d", who, heads, n)
    mask = in_groups(mask.ndim == 3 and mask:reshape{1, n, mask.shape[2], mask.shape[3]} or mask, groups)
  end
  return rille.scaled_dot_product_attention(in_groups(q, groups), in_groups(k, groups), in_groups(v, groups), mask, options)
end

local function project(self, q, k, v)
  local of_one = rawequal(q, k) and rawequal(k, v) and stacked.products(q, {self.q_proj, self.k_proj, self.v_proj})
  if of_one then return table.unpack(of_one) end
  return self.q_proj(q), self.k_proj(k), self.v_proj(v)
end

-- k defaults to q, v to k. mask: bool, true is seen; else it is added. cache: keys and values of what came before
-- (rille.models.cache); it gives those of all, and who sees whom.
function MultiheadAttention:forward(q, k, v, mask, cache)
  k = k or q
  v = v or k
  check.that(q.ndim == 3, "%s: the input is (batch, length, d), not of %d dimensions", who, q.ndim)
  local at = cache and cache:positions()
  q, k, v = project(self, q, k, v)
  q, k, v = split_heads(q, self.heads), split_heads(k, self.kv_heads), split_heads(v, self.kv_heads)
  if self.rotary then q, k = self.rotary:turn(q, k, at) end
  local is_causal = self.is_causal
  if cache then k, v, mask, is_causal = cache:keep(self, k, v) end
  return self.out_proj(join_heads(attend(q, k, v, mask, {is_causal = is_causal})))
end

function MultiheadAttention:describe()
  if self.kv_heads == self.heads then return ("%d heads"):format(self.heads) end
  return ("%d heads, %d of keys and values"):format(self.heads, self.kv_heads)
end

return MultiheadAttention
