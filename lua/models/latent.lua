-- latent.lua - multi-head latent attention (DeepSeek-V2 2024): one small vector per position is projected to the keys and values of
-- all heads. Each head of a query or key has an unrotated and a rotated part; all heads share the rotated part of the key.
--
-- The cache holds complete keys and values.

local rille = require "rille"
local check = require "rille.base.check"
local nn = rille.nn
local heads = require "rille.nn.sequence.heads"

local LatentAttention = nn.Module:extend("models.LatentAttention")
LatentAttention.parallel = {column = {"q_proj", "kv_proj", "kv_proj.k", "kv_proj.v"}, row = "out_proj",
  heads = {q_proj = "heads", kv_proj = "heads", out_proj = "heads"}}

-- Fields of c.latent: rank (of keys and values), q_rank (rank of queries; nil: queries are projected from the input
-- directly), plain, rotated and value (sizes of the parts of a head), eps (of the norms).
function LatentAttention:init(c, rotary)
  local l = c.latent
  local how = {eps = l.eps}
  self.heads, self.is_causal, self.rotary, self.scale = c.heads, true, rotary, c.scale
  self.rank, self.plain, self.rotated, self.value = l.rank, l.plain, l.rotated, l.value
  local size = l.plain + l.rotated
  if l.q_rank then
    self.q_a_proj = nn.Linear(c.width, l.q_rank, {bias = c.qkv_bias})
    self.q_a_norm = nn.RMSNorm(l.q_rank, how)
  end
  self.q_proj = nn.Linear(l.q_rank or c.width, c.heads * size, {bias = false})
  self.kv_a_proj = nn.Linear(c.width, l.rank + l.rotated, {bias = c.qkv_bias})
  self.kv_a_norm = nn.RMSNorm(l.rank, how)
  self.kv_proj = nn.Linear(l.rank, c.heads * (l.plain + l.value), {bias = false})
  self.out_proj = nn.Linear(c.heads * l.value, c.width, {bias = c.out_bias})
end

function LatentAttention:forward(x, mask, cache)
  check.that(x.ndim == 3, "models.LatentAttention: input must be (batch, length, d), found %d dimensions", x.ndim)
  local n, size, plain, at, lengths = self.heads, self.plain + self.rotated, self.plain, nil, nil
  if cache then at, lengths = cache:positions() end
  local q = heads.split(self.q_proj(self.q_a_norm and self.q_a_norm(self.q_a_proj(x)) or x), n)
  local low = self.kv_a_proj(x)
  local kv = heads.split(self.kv_proj(self.kv_a_norm(low:slice(2, 0, self.rank))), n)
  local k_turned = heads.split(low:slice(2, self.rank, self.rank + self.rotated), 1)
  local q_turned
  q_turned, k_turned = self.rotary:turn(q:slice(3, plain, size), k_turned, at, lengths)
  local shape = q_turned.shape
  q = rille.concat({q:slice(3, 0, plain), q_turned}, 3)
  local k = rille.concat({kv:slice(3, 0, plain), k_turned:expand(shape)}, 3)
  local v, seen = kv:slice(3, plain, plain + self.value), {is_causal = true}
  if cache then k, v, seen = cache:keep(self, k, v, seen) end
  seen.scale = self.scale
  return self.out_proj(heads.join(heads.attend("models.LatentAttention", q, k, v, mask, seen)))
end

-- The projection to keys and values in quantised blocks of a GGUF file, for inference. The file stores two parts: k, u8
-- (heads, rank, blocks, bytes of a block), and v, u8 (heads, values, blocks, bytes of a block). kinds: their types.
local Blocks = nn.Module:extend("models.LatentBlocks")

-- parts: {k = {kind =, weight =}, v = {kind =, weight =}}.
function Blocks:init(_, parts)
  self.kinds = {k = parts.k.kind, v = parts.v.kind}
  for name, part in pairs(parts) do self:buffer(name, part.weight) end
end

-- Blocks of k run along the keys, which the product does not sum over; so k is decoded for each call.
function Blocks:forward(x)
  local n, values, blocks, bytes = table.unpack(self.v.shape)
  local k = rille.matmul(x:unsqueeze(1), rille.from_blocks(self.k, {kind = self.kinds.k}):to(x.dtype))
  local v = rille.linear_blocks(x, self.v:reshape{n * values, blocks, bytes}, {kind = self.kinds.v})
  return heads.join(rille.concat({k, heads.split(v, n)}, 3))
end

return {Attention = LatentAttention, Blocks = Blocks}
