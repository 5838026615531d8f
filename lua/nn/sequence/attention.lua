-- attention.lua - multi-head attention. Vaswani et al. 2017.
--
-- q, k, v: (batch, length, d). Each input is projected and split into heads of size d / heads. Attention is computed
-- per head; then the heads are joined and projected again. The projections are Linear layers, so sharding the weights
-- of q, k, v by rows, and that of out by columns, shards attention by heads. Under rille.autocast, projections of one
-- input are one product (stacked.lua). With kv_heads < heads, each key/value head serves heads / kv_heads query heads
-- (Ainslie et al. 2023).

local rille = require "rille"
local check = require "rille.base.check"
local Module = require "rille.nn.base.module"
local Linear = require "rille.nn.linear"
local heads_of = require "rille.nn.sequence.heads"
local rotary = require "rille.nn.sequence.rotary"
local stacked = require "rille.nn.base.stacked"

local MultiheadAttention = Module:extend("nn.MultiheadAttention")

MultiheadAttention.parallel = {column = {"q_proj", "k_proj", "v_proj"}, row = "out_proj",
  heads = {q_proj = "heads", k_proj = "kv_heads", v_proj = "kv_heads", out_proj = "heads"}}

local who = "nn.MultiheadAttention"

function MultiheadAttention:init(d, heads, options)
  check.count(who, "d", d)
  check.count(who, "the number of heads", heads)
  if d % heads ~= 0 then
    check.fail("%s: d = %d must be divisible by heads = %d; heads = %s would do", who, d, heads, check.divisors(d))
  end
  options = check.options(who, options, {is_causal = false, bias = true, kv_heads = heads, rotary = check.none})
  check.count(who, "kv_heads", options.kv_heads)
  if heads % options.kv_heads ~= 0 then
    check.fail("%s: %d heads must be divisible by kv_heads = %d; kv_heads = %s would do", who, heads, options.kv_heads,
      check.divisors(heads))
  end
  check.that(options.rotary == nil or rotary.is(options.rotary), "%s: rotary must be an nn.Rotary, found %s", who,
    check.shown(options.rotary))
  local few = d // heads * options.kv_heads
  self.heads, self.kv_heads, self.is_causal, self.rotary = heads, options.kv_heads, options.is_causal, options.rotary
  self.q_proj = Linear(d, d, {bias = options.bias})
  self.k_proj = Linear(d, few, {bias = options.bias})
  self.v_proj = Linear(d, few, {bias = options.bias})
  self.out_proj = Linear(d, d, {bias = options.bias})
end

local function project(self, q, k, v)
  local of_one = rawequal(q, k) and rawequal(k, v) and stacked.products(q, {self.q_proj, self.k_proj, self.v_proj})
  if of_one then return table.unpack(of_one) end
  return self.q_proj(q), self.k_proj(k), self.v_proj(v)
end

-- Default of k: q; of v: k. mask: bool (true: attended to), or values that are added to the scores. cache: a
-- key/value cache (rille.models.generation.cache), which adds earlier keys and values and says which keys each query sees.
function MultiheadAttention:forward(q, k, v, mask, cache)
  k = k or q
  v = v or k
  check.that(q.ndim == 3, "%s: input must have 3 dimensions, (batch, length, d), found %d", who, q.ndim)
  local at, lengths
  if cache then at, lengths = cache:positions() end
  q, k, v = project(self, q, k, v)
  q, k, v = heads_of.split(q, self.heads), heads_of.split(k, self.kv_heads), heads_of.split(v, self.kv_heads)
  if self.rotary then q, k = self.rotary:turn(q, k, at, lengths) end
  local seen = {is_causal = self.is_causal}
  if cache then k, v, seen = cache:keep(self, k, v, seen) end
  return self.out_proj(heads_of.join(heads_of.attend(who, q, k, v, mask, seen)))
end

function MultiheadAttention:describe()
  if self.kv_heads == self.heads then return ("%d heads"):format(self.heads) end
  return ("%d heads, %d of keys and values"):format(self.heads, self.kv_heads)
end

return MultiheadAttention
