-- clip.lua - models that compare images with texts: CLIP (Radford et al. 2021) and SigLIP (Zhai et al. 2023).
--
--   m(ids, images[, {mask =}])       logits (images, texts)
--   m:embed_texts(ids[, {mask =}])   a vector for each text, and m:embed_images(images) for each image

local rille = require "rille"
local check = require "rille.check"
local layout = require "rille.layout"
local nn = rille.nn
local describe = require "rille.models.describe"
local feed_forward = require "rille.models.feed_forward"
local new_norm = require "rille.models.norms"
local towers = require "rille.models.towers"
local vision = require "rille.models.vision"

-- ---- texts ----

local Texts = nn.Module:extend("models.Texts")

function Texts:init(c)
  self.config = c
  self.embed_tokens = nn.Embedding(c.vocab, c.width)
  self.positions = towers.parameter{c.length, c.width}
  self.tower = towers.Tower(c)
  if c.projection then self.head = nn.Linear(c.width, c.projection, {bias = c.head_bias}) end
end

-- Returns the attention mask, which says to which keys a query attends; nil: none is needed.
local function mask_of(x, padding, is_causal)
  if not padding then return nil end
  local n, where = x.shape[2], {placement = x.placement, sbp = layout.replicated(x.placement)}
  local keys = padding:reshape{padding.shape[1], 1, 1, n}
  local at = is_causal and rille.arange(n, where)
  return at and at:reshape{1, 1, 1, n}:le(at:reshape{1, 1, n, 1}):logical_and(keys) or keys
end

-- Returns, per row, the index of the entry whose features become the row's vector: the first end-of-text id, or the
-- last entry. Old configs name id 2 as the end of text, but mean the greatest id.
local function entries_of(ids, c)
  if not c.eos then return nil end
  return (c.eos == 2 and ids or ids:eq(c.eos):to("i64")):argmax{axis = 1, keepdim = true}
end

function Texts:forward(ids, padding)
  local c, n = self.config, ids.shape[2]
  local x = self.embed_tokens(ids) + self.positions:slice(0, 0, n)
  x = self.tower(x, mask_of(x, padding, c.is_causal))
  local at = entries_of(ids, c)
  local one = at and x:gather(1, layout.on_mesh_of(at, x):reshape{-1, 1, 1}:expand{x.shape[1], 1, c.width}) or x:slice(1, n - 1, n)
  return self.head(one:squeeze(1))
end

-- ---- images ----

-- Pooling of an image: attention of one learned query to all patches, then a feed-forward layer.
local Pool = nn.Module:extend("models.Pool")

function Pool:init(c)
  self.probe = towers.parameter{1, 1, c.width}
  self.attention = nn.MultiheadAttention(c.width, c.heads)
  self.norm = new_norm(c, c.width)
  self.mlp = feed_forward.FeedForward(c, c.hidden)
end

function Pool:forward(x)
  local probe = self.probe:expand{x.shape[1], 1, x.shape[3]}
  local y = self.attention(probe, x, x)
  return (y + self.mlp(self.norm(y))):squeeze(1)
end

local Images = nn.Module:extend("models.Images")

function Images:init(c)
  self.patches = towers.Patches(c)
  local all = describe.complete(c)
  if c.pre_norm then self.pre_norm = new_norm(all, c.width) end
  self.tower = towers.Tower(c)
  if c.pool then self.pool = Pool(all) end
  if c.projection then self.head = nn.Linear(c.width, c.projection, {bias = false}) end
end

function Images:forward(images)
  local x = self.patches(images)
  if self.pool then return self.pool(self.tower(x)) end
  x = self.tower:blocks(self.pre_norm(x))
  return self.head(self.tower.norm(x:slice(1, 0, 1):squeeze(1)))
end

-- ---- the model ----

local Pair = towers.Model:extend("models.pair")

function Pair:init(config)
  towers.Model.init(self, config)
  self.texts, self.images = Texts(config.texts), Images(config.images)
  self.logit_scale = towers.parameter(config.scalars)
  if config.logit_bias then self.logit_bias = towers.parameter(config.scalars) end
end

function Pair:embed_images(images) return towers.wide(self.images(images)) end

function Pair:embed_texts(ids, given)
  self:check_ids(ids)
  return towers.wide(self.texts(ids, towers.mask_of(self.__name .. ": embed_texts", ids, given)))
end

local function normalised(y) return y / y:square():sum{axis = -1, keepdim = true}:sqrt() end

function Pair:forward(ids, images, given)
  local a, b = normalised(self:embed_images(images)), normalised(self:embed_texts(ids, given))
  local y = rille.matmul(a, b:transpose(0, 1)) * towers.wide(self.logit_scale):exp():reshape{}
  return self.logit_bias and y + towers.wide(self.logit_bias):reshape{} or y
end

function Pair:describe()
  local t, i = self.config.texts, self.config.images
  return ("texts: %d layers of %d; images of %d: %d layers of %d"):format(t.layers, t.width, i.image, i.layers, i.width)
end

-- ---- files ----

local blocks = {layer = "encoder.layers.%d.", norm1 = "layer_norm1", norm2 = "layer_norm2", q = "self_attn.q_proj",
  k = "self_attn.k_proj", v = "self_attn.v_proj", out = "self_attn.out_proj", up = "mlp.fc1", down = "mlp.fc2"}

local function with_norm(name)
  local n = {norm = name}
  for key, value in pairs(blocks) do n[key] = value end
  return n
end

local sizes = {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"}
local text_sizes = {"vocab_size", "max_position_embeddings", table.unpack(sizes)}
local image_sizes = {"image_size", "patch_size", "num_channels", table.unpack(sizes)}

-- Returns the descriptions of both towers. defaults: the defaults of the library transformers, for texts and for
-- images.
local function both(c, contents, model_type, defaults)
  local w = towers.words(model_type, c, "text_config", defaults.texts, text_sizes)
  local v = towers.words(model_type, c, "vision_config", defaults.images, image_sizes)
  local texts = towers.describe({width = w.hidden_size, layers = w.num_hidden_layers, heads = w.num_attention_heads,
    hidden = w.intermediate_size, activation = w.hidden_act, eps = w.layer_norm_eps, vocab = w.vocab_size,
    length = w.max_position_embeddings}, #contents)
  local images = vision.tower(v, #contents)
  images.flat = true
  return {texts = texts, images = images, layers = texts.layers + images.layers, length = texts.length}, w, v
end

local clip_defaults = {
  texts = {hidden_size = 512, intermediate_size = 2048, num_hidden_layers = 12, num_attention_heads = 8, vocab_size = 49408,
    max_position_embeddings = 77, hidden_act = "quick_gelu", layer_norm_eps = 1e-5, eos_token_id = 49407},
  images = {hidden_size = 768, intermediate_size = 3072, num_hidden_layers = 12, num_attention_heads = 12, image_size = 224,
    patch_size = 32, num_channels = 3, hidden_act = "quick_gelu", layer_norm_eps = 1e-5},
}

local function of_clip(c, contents, model_type)
  local d, w = both(c, contents, model_type, clip_defaults)
  local size = check.count(model_type, "projection_dim", c.projection_dim or 512)
  d.texts.is_causal, d.texts.projection, d.texts.head_bias = true, size, false
  d.texts.eos = check.whole(model_type, "text_config.eos_token_id", w.eos_token_id, 0)
  d.images.projection, d.images.patch_bias, d.images.pre_norm, d.scalars = size, false, true, {}
  return d
end

local siglip_size = {hidden_size = 768, intermediate_size = 3072, num_hidden_layers = 12, num_attention_heads = 12,
  hidden_act = "gelu_pytorch_tanh", layer_norm_eps = 1e-6}
local siglip_defaults = {texts = {vocab_size = 32000, max_position_embeddings = 64},
  images = {image_size = 224, patch_size = 16, num_channels = 3}}
for name, value in pairs(siglip_size) do siglip_defaults.texts[name], siglip_defaults.images[name] = value, value end

local function of_siglip(c, contents, model_type)
  local d, w, v = both(c, contents, model_type, siglip_defaults)
  check.that(v.vision_use_head ~= false, "vision_config.vision_use_head = false is not supported")
  d.texts.projection = check.count(model_type, "text_config.projection_size", w.projection_size or w.hidden_size)
  d.texts.head_bias = true
  d.images.tokens, d.images.pool, d.scalars, d.logit_bias = 0, true, {1}, true
  return d
end

-- Appends the rows of the naming table for SigLIP's pooling layer.
local function pool_rows(list)
  local theirs, ours = "vision_model.head.", "images.pool."
  list[#list + 1] = {theirs .. "probe", ours .. "probe"}
  for _, part in ipairs{"weight", "bias"} do
    local row = {theirs .. "attention.in_proj_" .. part}
    for i, name in ipairs{"q", "k", "v"} do row[i + 1] = ("%sattention.%s_proj.%s"):format(ours, name, part) end
    list[#list + 1] = row
  end
  towers.pair(list, theirs .. "attention.out_proj", ours .. "attention.out_proj", true)
  towers.pair(list, theirs .. "layernorm", ours .. "norm", true)
  towers.pair(list, theirs .. "mlp.fc1", ours .. "mlp.up_proj", true)
  towers.pair(list, theirs .. "mlp.fc2", ours .. "mlp.down_proj", true)
end

local function rows(config)
  local list, at, see = {}, "text_model.embeddings.", "vision_model.embeddings."
  towers.pair(list, at .. "token_embedding", "texts.embed_tokens")
  list[2] = {at .. "position_embedding.weight", "texts.positions"}
  towers.rows(list, config.texts, with_norm "final_layer_norm", "text_model.", "texts.tower.")
  local pool = config.images.pool
  towers.pair(list, pool and "text_model.head" or "text_projection", "texts.head", pool)
  towers.pair(list, see .. "patch_embedding", "images.patches.conv", config.images.patch_bias)
  list[#list + 1] = {see .. "position_embedding.weight", "images.patches.positions"}
  if config.images.tokens > 0 then list[#list + 1] = {see .. "class_embedding", "images.patches.tokens.0"} end
  if config.images.pre_norm then towers.pair(list, "vision_model.pre_layrnorm", "images.pre_norm", true) end
  towers.rows(list, config.images, with_norm "post_layernorm", "vision_model.", "images.tower.")
  if pool then pool_rows(list) else towers.pair(list, "visual_projection", "images.head") end
  list[#list + 1] = {"logit_scale", "logit_scale", scalar = true}
  if config.logit_bias then list[#list + 1] = {"logit_bias", "logit_bias", scalar = true} end
  return list
end

local more = {ignored = {"position_ids$"}}

return {kinds = {
  clip = towers.kind("clip", Pair, of_clip, rows, more),
  siglip = towers.kind("siglip", Pair, of_siglip, rows, more),
}}
