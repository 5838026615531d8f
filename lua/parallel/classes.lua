-- classes.lua - the roles of layers in known classes: column layers, row layers, norms, and sizes that sharding must
-- divide.
--
-- Recipes know layers only through this file, and layers do not know recipes. Layers of other classes are replicated.

local rille = require "rille"
local nn = rille.nn

-- columns, rows: Linear layers. norms: norms before column layers. experts: parameters sharded by expert. block: the
-- result is a stream of tokens; images: the result is images, sharded by batch only. counts: {field, its name in
-- messages}; the field must be divisible by the number of ranks over which heads are sharded.
local classes = {
  [nn.MultiheadAttention] = {columns = {"q_proj", "k_proj", "v_proj"}, rows = {"out_proj"},
    counts = {{"heads", "heads"}, {"kv_heads", "heads of keys and values (kv_heads)"}}},
  [nn.TransformerBlock] = {columns = {"fc1"}, rows = {"fc2"}, norms = {"norm1", "norm2"}, block = true},
  [nn.SwiGLU] = {columns = {"gate_proj", "up_proj"}, rows = {"down_proj"}},
  [nn.MixtureOfExperts] = {experts = {"up", "down", "up_scale", "down_scale"}}, -- scales: of nn.Int8Experts
}

-- Classes of models, by name, so that unused models are not loaded.
local by_name = {
  ["models.moe.Block"] = {norms = {"norm1", "norm2"}, block = true},
  ["models.decoder.Block"] = {norms = {"norm1", "norm2"}, block = true},
  ["models.Experts"] = {experts = {"gate", "up", "down", "gate_bias", "up_bias", "down_bias"}},
  ["models.LatentAttention"] = {columns = {"q_proj", "kv_proj"}, rows = {"out_proj"}, counts = {{"heads", "heads"}}},
  ["models.resnet.Block"] = {images = true},
  ["models.decoder"] = {tables = {"embed_tokens"}, norms = {"norm"}, heads = {"lm_head"}},
  ["models.gpt2"] = {tables = {"wte"}, positions = {"wpe"}, norms = {"ln_f"}, heads = {"lm_head"}},
  ["models.moe"] = {tables = {"wte"}, positions = {"wpe"}, norms = {"ln_f"}, heads = {"lm_head"}},
}

-- Returns the roles of a module's class or of its nearest known base class; nil: replicated.
return function(module)
  local class = getmetatable(module)
  while type(class) == "table" do
    local known = classes[class] or by_name[rawget(class, "__name")]
    if known then return known end
    local above = getmetatable(class)
    class = above and above.__index
  end
end
