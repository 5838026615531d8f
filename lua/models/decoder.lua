-- decoder.lua - builds a decoder from a description. describe.lua converts the config.json of any supported architecture to one set
-- of settings, and each setting selects one of the parts in this file. Attention, experts and norms have files of their own.

local rille = require "rille"
local layout = require "rille.base.layout"
local nn = rille.nn
local describe = require "rille.models.loading.describe"
local language = require "rille.models.language"
local activations = require "rille.models.activations"
local Attention = require "rille.models.attention"
local LatentAttention = require "rille.models.latent".Attention
local feed_forward = require "rille.models.feed_forward"
local new_norm = require "rille.models.norms"

-- ---- the transformer block ----

-- Layer scale: multiplies each feature by a learned factor (Touvron et al. 2021).
local Factors = nn.Module:extend("models.Factors")
function Factors:init(width) self.weight = nn.Parameter(rille.ones{width}) end
function Factors:forward(x) return x * self.weight end

-- A transformer block. norm1 and norm2 are applied before attention and the feed-forward layer, norm3 and norm4 after
-- both. A parallel block adds the results of both layers to its input. With post_norm, norm1 and norm2 are applied
-- after the residual sums instead.
local Block = nn.Module:extend("models.decoder.Block")
Block.parallel = {norm = {"norm1", "norm2"}, stream = true}

local function new_late_norm(c) return c.layer_scale and Factors(c.width) or new_norm(c, c.width) end

function Block:init(c, i, rotary)
  local has = c.norms
  if has:find("1") and not (i == 1 and c.first_bare) then self.norm1 = new_norm(c, c.width) end
  self.attention = c.latent and LatentAttention(c, rotary) or Attention(c, rotary, c.windows and c.windows[i] or nil)
  if has:find("3") then self.norm3 = new_late_norm(c) end
  if has:find("2") then self.norm2 = new_norm(c, c.width) end
  self.mlp = c.experts and c.experts.layers[i] and feed_forward.Experts(c) or feed_forward.FeedForward(c, c.hidden)
  if has:find("4") then self.norm4 = new_late_norm(c) end
  self.adds_both, self.residual, self.post_norm = c.parallel or nil, c.residual, c.post_norm
end

local function through(norm, x) return norm and norm(x) or x end

function Block:forward(x, mask, cache)
  if self.post_norm then
    x = self.norm1(x + self.attention(x, mask, cache))
    return self.norm2(x + self.mlp(x))
  end
  local h = through(self.norm1, x)
  local a = through(self.norm3, self.attention(h, mask, cache))
  if self.adds_both then return x + a + self.mlp(through(self.norm2, self.norm2 and x or h)) end
  x = x + (self.residual and a * self.residual or a)
  local m = through(self.norm4, self.mlp(through(self.norm2, x)))
  return x + (self.residual and m * self.residual or m)
end

-- ---- the decoder of embeddings, blocks and last norm ----

local Decoder = language.Model:extend("models.decoder")
Decoder.parallel = {embedding = "embed_tokens", norm = "norm", head = "lm_head"}

-- Returns a table from layer to its nn.Rotary; no entry: the layer has no rotary positions. There are at most two
-- nn.Rotary, shared by the layers.
local function rotaries(c)
  local function new(theta, scaling)
    return theta and nn.Rotary(c.length, c.rotary_size, {base = theta, scaling = scaling, interleaved = c.interleaved})
  end
  local list, far, near = {}, new(c.theta, c.rope_scaling), new(c.local_theta)
  for i = 1, c.layers do
    if not (c.unrotated and c.unrotated[i]) then list[i] = near and c.windows and c.windows[i] and near or far end
  end
  return list
end

-- Creates the embeddings, the blocks and the last norm. c: a complete description. An encoder adds positions before the
-- projection embed_in, a decoder after it.
function Decoder:build(c)
  local width = c.embed_width or c.width
  self.embed_tokens = nn.Embedding(c.vocab, width)
  if c.embed_width then self.embed_in = nn.Linear(width, c.width, {bias = not c.is_causal}) end
  if c.is_causal then width = c.width end
  if c.embed_norm then self.embed_norm = new_norm(c, width) end
  if c.learned then self.positions = nn.Embedding(c.length + c.learned, width) end
  local rotary = rotaries(c)
  self.layers = {}
  for i = 1, c.groups or c.layers do self.layers[i] = Block(c, i, rotary[i]) end
  if not c.post_norm then self.norm = new_norm(c, c.width) end
end

function Decoder:init(config)
  language.Model.init(self, config)
  local c = describe.complete(config)
  self:build(c)
  if c.embed_width then self.embed_out = nn.Linear(c.width, c.embed_width, {bias = false}) end
  self.lm_head = nn.Linear(c.embed_width or c.width, c.vocab, {bias = c.head_bias})
  if c.task_norm then
    self.task_dense, self.task_norm = nn.Linear(c.width, c.width, {bias = c.task_bias or false}), new_norm(c, c.width)
  end
  if c.tied then nn.tie(self.embed_tokens, "weight", self.lm_head, "weight") end
end

-- Casts the model. The corrections of router scores stay f32, because rounding could change the choice of experts.
function Decoder:to(dtype)
  language.Model.to(self, dtype)
  for _, block in ipairs(self.layers) do
    local router = block.mlp.correction and block.mlp
    if router then router.correction = router.correction:to("f32"):detach() end
  end
  return self
end

function Decoder:start()
  for _, p in self:named_parameters() do
    if p.ndim >= 2 then nn.init.normal_(p, 0, 0.02) end
  end
end

-- ---- computing the features of ids ----

-- Returns the slopes of ALiBi (Press et al. 2022) for n heads, a geometric series. If n is no power of two, returns
-- the series for the next lower power of two, and then every second slope of the series for the next higher power.
local function slopes(n)
  local low, list = 1, {}
  while 2 * low <= n do low = 2 * low end
  for h = 1, n do list[h] = 2.0 ^ (h <= low and -8 * h / low or -4 * (2 * (h - low) - 1) / low) end
  return list
end

-- Returns the mask of ALiBi, (1, heads, 1, keys): slope times the key's position. The query's position is left out,
-- because adding one number to all scores of a query does not change the softmax.
local function alibi(c, x, keys)
  local where = {placement = x.placement, sbp = layout.replicated(x.placement)}
  return rille.tensor(slopes(c.heads), where):reshape{1, c.heads, 1, 1} * rille.arange(keys, where):to("f32"):reshape{1, 1, 1, keys}
end

function Decoder:features(ids, given)
  local cache = language.pass(self, ids, given)
  local c, x = self.config, self.embed_tokens(ids)
  if self.embed_in then x = self.embed_in(x) end
  if c.embed_scale then x = x * c.embed_scale end
  if self.positions then
    local at = cache and cache:positions() or rille.arange(ids.shape[2],
      {placement = x.placement, sbp = layout.replicated(x.placement)}):reshape{1, ids.shape[2]}
    x = x + self.positions(at + c.learned)
  end
  x = through(self.embed_norm, x)
  local mask = c.alibi and alibi(c, x, cache and cache.at and cache.room or ids.shape[2]) or nil
  for _, block in ipairs(self.layers) do x = block(x, mask, cache) end
  x = self.norm(x)
  return self.embed_out and self.embed_out(x) or x
end

function Decoder:logits(x)
  local c = self.config
  if self.task_dense then x = self.task_norm(activations[c.task_activation](self.task_dense(x))) end
  local y = language.Model.logits(self, x)
  if c.logit_scale then y = y * c.logit_scale end
  if c.final_softcap then y = (y * (1 / c.final_softcap)):tanh() * c.final_softcap end
  return y
end

Decoder.Block = Block

return Decoder
