-- clip.lua - models that compare images with texts: CLIP (Radford et al. 2021) and SigLIP (Zhai et al. 2023), and
-- their towers alone.
--
--   m(ids, images[, {mask =}])       logits (images, texts)
--   m:embed_texts(ids[, {mask =}])   a vector for each text, and m:embed_images(images) for each image
--   m:prepare(pixels)                images for m, as the folder describes (prepare.lua)
--
-- A tower alone returns features, m(ids[, {mask =}]) or m(images), and vectors, m:embed(ids[, {mask =}]) or
-- m:embed(images).

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local nn = rille.nn
local describe = require "rille.models.loading.describe"
local feed_forward = require "rille.models.feed_forward"
local new_norm = require "rille.models.norms"
local prepare = require "rille.models.towers.prepare"
local towers = require "rille.models.towers.towers"
local vision = require "rille.models.towers.vision"

-- ---- the tower of texts ----

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

function Texts:features(ids, padding)
  local x = self.embed_tokens(ids) + self.positions:slice(0, 0, ids.shape[2])
  return self.tower(x, mask_of(x, padding, self.config.is_causal))
end

function Texts:forward(ids, padding)
  local c, n, x = self.config, ids.shape[2], self:features(ids, padding)
  local at = entries_of(ids, c)
  local one = at and x:gather(1, layout.on_mesh_of(at, x):reshape{-1, 1, 1}:expand{x.shape[1], 1, c.width}) or x:slice(1, n - 1, n)
  one = one:squeeze(1)
  return self.head and self.head(one) or one
end

-- ---- the tower of images ----

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

-- Returns the features of patches. CLIP applies its last norm only to the vector of an image.
function Images:features(images)
  local x = self.patches(images)
  return self.pre_norm and self.tower:blocks(self.pre_norm(x)) or self.tower(x)
end

function Images:forward(images)
  check.that(self.pool or self.pre_norm, "models.siglip_vision_model: embed: the model has no pooling layer (vision_use_head is false); call m(images)")
  local x = self:features(images)
  if self.pool then return self.pool(x) end
  x = self.tower.norm(x:slice(1, 0, 1):squeeze(1))
  return self.head and self.head(x) or x
end

-- ---- models of both towers or of one ----

-- Returns the vectors of texts. The field `texts` of the model is its tower. method: name used in messages.
local function text_vectors(model, method, ids, given)
  model:check_ids(ids)
  return towers.wide(model.texts(ids, towers.mask_of(("%s: %s"):format(model.__name, method), ids, given)))
end

local Pair = towers.Model:extend("models.pair")
Pair.prepare = prepare.images

function Pair:init(config)
  towers.Model.init(self, config)
  self.texts, self.images = Texts(config.texts), Images(config.images)
  self.logit_scale = towers.parameter(config.scalars)
  if config.logit_bias then self.logit_bias = towers.parameter(config.scalars) end
end

function Pair:embed_images(images) return towers.wide(self.images(images)) end
function Pair:embed_texts(ids, given) return text_vectors(self, "embed_texts", ids, given) end

local function normalised(y) return y / y:square():sum{axis = -1, keepdim = true}:sqrt() end

function Pair:forward(ids, images, given)
  local a, b = normalised(self:embed_images(images)), normalised(self:embed_texts(ids, given))
  local y = rille.matmul(a, b:transpose(0, 1)) * towers.wide(self.logit_scale):exp():reshape{}
  return self.logit_bias and y + towers.wide(self.logit_bias):reshape{} or y
end

local function text_words(c) return ("text tower: %d layers of width %d"):format(c.layers, c.width) end
local function image_words(c)
  return ("image tower: images of %d pixels a side, %d layers of width %d"):format(c.image, c.layers, c.width)
end

function Pair:describe() return text_words(self.config.texts) .. "; " .. image_words(self.config.images) end

local TextTower = towers.Model:extend("models.text_tower")

function TextTower:init(config)
  towers.Model.init(self, config)
  self.texts = Texts(config.texts)
end

function TextTower:forward(ids, given)
  self:check_ids(ids)
  return self.texts:features(ids, towers.mask_of(self.__name, ids, given))
end

function TextTower:embed(ids, given) return text_vectors(self, "embed", ids, given) end
function TextTower:describe() return text_words(self.config.texts) end

local ImageTower = towers.Model:extend("models.image_tower")
ImageTower.prepare = prepare.images

function ImageTower:init(config)
  towers.Model.init(self, config)
  self.images = Images(config.images)
end

function ImageTower:forward(images) return self.images:features(images) end
function ImageTower:embed(images) return towers.wide(self.images(images)) end
function ImageTower:describe() return image_words(self.config.images) end

-- ---- loading models from folders ----

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

-- Return the description of a tower, and the keys of config.json for that tower. part: the table of config.json with
-- these keys; nil: config.json has only this tower. defaults: the defaults of the library transformers for these
-- keys.
local function texts_of(model_type, c, part, defaults, contents)
  local w = towers.words(model_type, c, part, defaults, text_sizes)
  return towers.describe({width = w.hidden_size, layers = w.num_hidden_layers, heads = w.num_attention_heads,
    hidden = w.intermediate_size, activation = w.hidden_act, eps = w.layer_norm_eps, vocab = w.vocab_size,
    length = w.max_position_embeddings, at = "text_model."}, #contents), w
end

local function images_of(model_type, c, part, defaults, contents)
  local w = towers.words(model_type, c, part, defaults, image_sizes)
  local d = vision.tower(w, #contents)
  d.flat, d.at = true, "vision_model."
  return d, w
end

local clip_defaults = {
  texts = {hidden_size = 512, intermediate_size = 2048, num_hidden_layers = 12, num_attention_heads = 8, vocab_size = 49408,
    max_position_embeddings = 77, hidden_act = "quick_gelu", layer_norm_eps = 1e-5, eos_token_id = 49407},
  images = {hidden_size = 768, intermediate_size = 3072, num_hidden_layers = 12, num_attention_heads = 12, image_size = 224,
    patch_size = 32, num_channels = 3, hidden_act = "quick_gelu", layer_norm_eps = 1e-5},
}

-- Complete the descriptions of CLIP's towers. size: size of the vectors that a tower returns; nil: the tower has no
-- projection.
local function clip_texts(model_type, c, part, contents, size)
  local d, w = texts_of(model_type, c, part, clip_defaults.texts, contents)
  d.is_causal, d.projection, d.head_bias = true, size, false
  d.eos = check.whole(model_type, (part and part .. "." or "") .. "eos_token_id", w.eos_token_id, 0)
  return d
end

local function clip_images(model_type, c, part, contents, size)
  local d = images_of(model_type, c, part, clip_defaults.images, contents)
  d.projection, d.patch_bias, d.pre_norm = size, false, true
  return d
end

local function vector_size(model_type, c) return check.count(model_type, "projection_dim", c.projection_dim or 512) end

-- Returns the description of a model of both towers, (texts, images).
local function pair_of(texts, images, scalars)
  return {texts = texts, images = images, layers = texts.layers + images.layers, length = texts.length, scalars = scalars}
end

local function of_clip(c, contents, model_type)
  local size = vector_size(model_type, c)
  return pair_of(clip_texts(model_type, c, "text_config", contents, size), clip_images(model_type, c, "vision_config", contents, size), {})
end

local siglip_size = {hidden_size = 768, intermediate_size = 3072, num_hidden_layers = 12, num_attention_heads = 12,
  hidden_act = "gelu_pytorch_tanh", layer_norm_eps = 1e-6}
local siglip_defaults = {texts = {vocab_size = 32000, max_position_embeddings = 64},
  images = {image_size = 224, patch_size = 16, num_channels = 3}}
for name, value in pairs(siglip_size) do siglip_defaults.texts[name], siglip_defaults.images[name] = value, value end

local function siglip_texts(model_type, c, part, contents)
  local d, w = texts_of(model_type, c, part, siglip_defaults.texts, contents)
  d.projection = check.count(model_type, (part and part .. "." or "") .. "projection_size", w.projection_size or w.hidden_size)
  d.head_bias = true
  return d
end

local function siglip_images(model_type, c, part, contents)
  local d, w = images_of(model_type, c, part, siglip_defaults.images, contents)
  local head = w.vision_use_head ~= false
  check.that(head or not part, "%s.vision_use_head must be true, because images have no vectors otherwise; found false", part)
  d.tokens, d.pool = 0, head
  return d
end

local function of_siglip(c, contents, model_type)
  local d = pair_of(siglip_texts(model_type, c, "text_config", contents), siglip_images(model_type, c, "vision_config", contents), {1})
  d.logit_bias = true
  return d
end

-- Returns a function that converts the config.json of a tower alone to a config (towers.kind). field: "texts" or
-- "images", the field of the config. describe_tower: function that returns the tower's description. head: name of the
-- projection's tensor, if the tower may have a projection. In old files, the tensor names have the prefix that they
-- have in files of both towers.
local function alone(field, describe_tower, head)
  return function(c, contents, model_type)
    local projects = head and (towers.has(contents, "^" .. head) or towers.has(contents, ("^%s%%.head%%.weight"):format(field)))
    local d = describe_tower(model_type, c, nil, contents, projects and vector_size(model_type, c) or nil)
    if not towers.has(contents, "^" .. d.at:gsub("%.", "%%.") .. ".*") then d.at = "" end
    return {[field] = d, layers = d.layers, length = d.length}
  end
end

-- Appends the tensor names of SigLIP's pooling layer, in the file and in the model, to the naming table `list`.
local function pool_rows(list, at)
  local theirs, ours = at .. "head.", "images.pool."
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

local function text_rows(list, c)
  local embeddings = c.at .. "embeddings."
  towers.pair(list, embeddings .. "token_embedding", "texts.embed_tokens")
  list[#list + 1] = {embeddings .. "position_embedding.weight", "texts.positions"}
  towers.rows(list, c, with_norm "final_layer_norm", c.at, "texts.tower.")
  if c.projection then towers.pair(list, c.head_bias and c.at .. "head" or "text_projection", "texts.head", c.head_bias) end
end

local function image_rows(list, c)
  local embeddings = c.at .. "embeddings."
  towers.pair(list, embeddings .. "patch_embedding", "images.patches.conv", c.patch_bias)
  list[#list + 1] = {embeddings .. "position_embedding.weight", "images.patches.positions"}
  if c.tokens > 0 then list[#list + 1] = {embeddings .. "class_embedding", "images.patches.tokens.0"} end
  if c.pre_norm then towers.pair(list, c.at .. "pre_layrnorm", "images.pre_norm", true) end
  towers.rows(list, c, with_norm "post_layernorm", c.at, "images.tower.")
  if c.pool then pool_rows(list, c.at) end
  if c.projection then towers.pair(list, "visual_projection", "images.head") end
end

local function rows(config)
  local list = {}
  if config.texts then text_rows(list, config.texts) end
  if config.images then image_rows(list, config.images) end
  if config.scalars then list[#list + 1] = {"logit_scale", "logit_scale", scalar = true} end
  if config.logit_bias then list[#list + 1] = {"logit_bias", "logit_bias", scalar = true} end
  return list
end

local kinds, more = {}, {ignored = {"position_ids$"}}
for name, entry in pairs{
  clip = {Pair, of_clip}, siglip = {Pair, of_siglip},
  clip_text_model = {TextTower, alone("texts", clip_texts, "text_projection.weight")},
  clip_vision_model = {ImageTower, alone("images", clip_images, "visual_projection.weight")},
  siglip_text_model = {TextTower, alone("texts", siglip_texts)},
  siglip_vision_model = {ImageTower, alone("images", siglip_images)},
} do kinds[name] = towers.kind(name, entry[1], entry[2], rows, more) end

return {kinds = kinds}
