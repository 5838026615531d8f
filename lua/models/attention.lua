-- attention.lua - attention of a described decoder (describe.lua): nn.MultiheadAttention, extended by heads of any
-- size, norms of queries and keys, rotary positions, a scale, softcap (a bound of scores), sinks (learned scores
-- without a key) and a window.

local rille = require "rille"
local nn = rille.nn
local heads = require "rille.nn.sequence.heads"
local stacked = require "rille.nn.base.stacked"
local new_norm = require "rille.models.norms"

local Attention = nn.MultiheadAttention:extend("models.Attention")

-- c: config of the model. rotary: an nn.Rotary; nil: no rotation in this layer. window: number of keys to which a
-- query attends (without is_causal: on each side); nil: all keys.
function Attention:init(c, rotary, window)
  local size = c.head_dim
  self.window = window and (c.is_causal and {window - 1, -1} or {window, window}) or nil
  self.heads, self.kv_heads, self.is_causal, self.rotary = c.heads, c.kv_heads, c.is_causal, rotary
  self.scale, self.softcap, self.clip = c.scale, c.softcap, c.clip
  self.q_proj = nn.Linear(c.width, c.heads * size, {bias = c.qkv_bias})
  self.k_proj = nn.Linear(c.width, c.kv_heads * size, {bias = c.k_bias})
  self.v_proj = nn.Linear(c.width, c.kv_heads * size, {bias = c.qkv_bias})
  self.out_proj = nn.Linear(c.heads * size, c.width, {bias = c.out_bias})
  if c.qk_norm then
    self.qk_norm = c.qk_norm
    self.q_norm, self.k_norm = new_norm(c, c.qk_norm, "q"), new_norm(c, c.qk_norm, "k")
  end
  if c.sinks then self.sinks = nn.Parameter(rille.zeros{c.heads}) end
end

local function project(self, x)
  local of_one = stacked.products(x, {self.q_proj, self.k_proj, self.v_proj})
  if of_one then return table.unpack(of_one) end
  return self.q_proj(x), self.k_proj(x), self.v_proj(x)
end

function Attention:forward(x, mask, cache)
  local norm, at, lengths = self.qk_norm, nil, nil
  if cache then at, lengths = cache:positions() end
  local q, k, v = project(self, x)
  if norm == "all" then q, k = self.q_norm(q), self.k_norm(k) end
  if self.clip then q, k, v = q:clamp(-self.clip, self.clip), k:clamp(-self.clip, self.clip), v:clamp(-self.clip, self.clip) end
  q, k, v = heads.split(q, self.heads), heads.split(k, self.kv_heads), heads.split(v, self.kv_heads)
  if norm == "head" or norm == "each" then q, k = self.q_norm(q), self.k_norm(k) end
  if self.rotary then q, k = self.rotary:turn(q, k, at, lengths) end
  if norm == "late" then q, k = self.q_norm(q), self.k_norm(k) end
  local seen = {is_causal = self.is_causal, window = self.window}
  if cache then k, v, seen = cache:keep(self, k, v, seen) end
  seen.scale, seen.softcap, seen.sinks = self.scale, self.softcap, self.sinks
  return self.out_proj(heads.join(heads.attend("models.Attention", q, k, v, mask, seen)))
end

return Attention
