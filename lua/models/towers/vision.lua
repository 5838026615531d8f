-- vision.lua - vision transformers: ViT (Dosovitskiy et al. 2021), DeiT (Touvron et al. 2021), DINOv2 (Oquab et al. 2024).
--
--   m(images)          logits of classes (batch, classes), or features (batch, patches, width) of a base model
--   m:embed(images)    a vector for each image: the pooler's, or the first token's
--   m:prepare(pixels)  images for m, as the folder describes (prepare.lua)

local rille = require "rille"
local nn = rille.nn
local check = require "rille.base.check"
local prepare = require "rille.models.towers.prepare"
local towers = require "rille.models.towers.towers"

local Vision = towers.Model:extend("models.vision")
Vision.prepare = prepare.images

function Vision:init(config)
  towers.Model.init(self, config)
  local c = config
  self.patches = towers.Patches(c)
  if c.mask_token then self.mask_token = towers.parameter{1, c.width} end
  self.tower = towers.Tower(c)
  if c.pooler then self.pooler = nn.Linear(c.width, c.width) end
  self.heads = {}
  for i = 1, c.heads_of_classes or 0 do self.heads[i] = nn.Linear(c.mean_too and 2 * c.width or c.width, c.classes) end
end

function Vision:features(images) return self.tower(self.patches(images)) end

local function token(x, i) return x:slice(1, i - 1, i):squeeze(1) end

-- Converts features to f32 logits. A model with two heads has a token for each head, and the logits are the mean of
-- both heads' logits.
function Vision:logits(x)
  local sum
  for i, head in ipairs(self.heads) do
    local own = token(x, i)
    if self.config.mean_too then own = rille.concat({own, x:slice(1, 1, x.shape[2]):mean{axis = 1}}, 1) end
    local y = towers.wide(head(own))
    sum = sum and sum + y or y
  end
  return sum and #self.heads > 1 and sum * (1 / #self.heads) or sum or x
end

function Vision:forward(images) return self:logits(self:features(images)) end

function Vision:embed(images)
  local first = token(self:features(images), 1)
  return towers.wide(self.pooler and self.pooler(first):tanh() or first)
end

function Vision:describe()
  local c = self.config
  return ("%d layers of width %d, %d heads, images of %d pixels a side, patches of %d"):format(c.layers, c.width, c.heads,
    c.image, c.patch)
end

-- ---- loading models from folders ----

local blocks = {q = "attention.attention.query", k = "attention.attention.key", v = "attention.attention.value",
  out = "attention.output.dense", layer = "encoder.layer.%d.", norm = "layernorm"}
local vit = {norm1 = "layernorm_before", norm2 = "layernorm_after", up = "intermediate.dense", down = "output.dense"}
local dinov2 = {norm1 = "norm1", norm2 = "norm2", norm3 = "layer_scale1.lambda1", norm4 = "layer_scale2.lambda1", up = "mlp.fc1",
  down = "mlp.fc2"}
local gated = {gate_up = "mlp.weights_in", down = "mlp.weights_out"}

local function joined(...)
  local all = {}
  for _, t in ipairs{...} do
    for name, value in pairs(t) do all[name] = value end
  end
  return all
end

local defaults = {hidden_size = 768, num_hidden_layers = 12, num_attention_heads = 12, intermediate_size = 3072, image_size = 224,
  patch_size = 16, num_channels = 3, hidden_act = "gelu", layer_norm_eps = 1e-12, qkv_bias = true, mlp_ratio = 4}
local counts = {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "image_size", "patch_size",
  "num_channels"}

-- Returns the description of a vision tower from the keys w of config.json.
local function tower(w, most)
  return towers.describe({width = w.hidden_size, layers = w.num_hidden_layers, heads = w.num_attention_heads,
    hidden = w.intermediate_size, image = w.image_size, patch = w.patch_size, channels = w.num_channels, activation = w.hidden_act,
    eps = w.layer_norm_eps, tokens = 1, patch_bias = true}, most)
end

local function of_config(c, contents, model_type)
  local w = towers.words(model_type, c, nil, defaults, counts)
  local d = tower(w, #contents)
  d.qkv_bias, d.tokens = w.qkv_bias, model_type == "deit" and 2 or 1
  d.pooler = towers.has(contents, "pooler%.dense%.weight") or towers.has(contents, "^pooler%.weight") or nil
  local teacher = towers.has(contents, "distillation_classifier%.weight") or towers.has(contents, "^heads%.1%.weight")
  local one = towers.has(contents, "^classifier%.weight") or towers.has(contents, "^heads%.0%.weight")
  d.heads_of_classes = teacher and 2 or one and 1 or nil
  if d.heads_of_classes then d.classes = towers.classes(w) end
  return d
end

local function of_dinov2(c, contents, model_type)
  local d = of_config(joined({layer_norm_eps = 1e-6, patch_size = 14}, c), contents, model_type)
  local ratio = c.mlp_ratio == nil and 4 or c.mlp_ratio
  check.that(type(ratio) == "number" and d.width * ratio >= 1 and d.width * ratio < 1 << 31,
    "mlp_ratio must be a number whose product with hidden_size is at least 1, found %s", check.shown(ratio))
  local hidden = math.floor(d.width * ratio)
  d.norms, d.layer_scale, d.mean_too, d.hidden, d.resizes = "1234", true, d.classes and true, hidden, true
  d.mask_token = c.use_mask_token ~= false or nil
  if c.use_swiglu_ffn then d.gated, d.activation, d.hidden = true, "silu", (hidden * 2 // 3 + 7) // 8 * 8 end
  return d
end

-- Returns a function that returns the naming table of a model, which maps the file's tensor names to the model's. If
-- the model has classes, the file's names have the prefix `stem`.
local function rows(stem, more)
  return function(c)
    local at, list = c.heads_of_classes and stem .. "." or "", {}
    list[1] = {at .. "embeddings.cls_token", "patches.tokens.0"}
    if c.tokens == 2 then list[2] = {at .. "embeddings.distillation_token", "patches.tokens.1"} end
    list[#list + 1] = {at .. "embeddings.position_embeddings", "patches.positions"}
    if c.mask_token then list[#list + 1] = {at .. "embeddings.mask_token", "mask_token"} end
    towers.pair(list, at .. "embeddings.patch_embeddings.projection", "patches.conv", true)
    towers.rows(list, c, joined(blocks, more, c.gated and gated or {}), at, "tower.")
    if c.pooler then towers.pair(list, at .. "pooler.dense", "pooler", true) end
    local two = c.heads_of_classes == 2
    if c.heads_of_classes then towers.pair(list, two and "cls_classifier" or "classifier", "heads.0", true) end
    if two then towers.pair(list, "distillation_classifier", "heads.1", true) end
    return list
  end
end

return {
  tower = tower,
  kinds = {
    vit = towers.kind("vit", Vision, of_config, rows("vit", vit), {prefix = "vit."}),
    deit = towers.kind("deit", Vision, of_config, rows("deit", vit), {prefix = "deit."}),
    dinov2 = towers.kind("dinov2", Vision, of_dinov2, rows("dinov2", dinov2), {prefix = "dinov2."}),
  },
}
