-- classes.lua - which layers of which class are column layers, row layers, norms; what must divide.
--
-- This is all that recipes know of layers, and layers know nothing of recipes. A class that is not here stays whole.

local rille = require "rille"
local nn = rille.nn

-- columns, rows: Linear layers; norms: what stands before column layers; experts: parameters cut by expert; block, images:
-- it gives a stream of tokens, or images, of which the batch alone is cut; counts: {name of a field, what to call it}, which
-- the ways heads are cut must divide.
local classes = {
  [nn.MultiheadAttention] = {columns = {"q_proj", "k_proj", "v_proj"}, rows = {"out_proj"},
    counts = {{"heads", "heads"}, {"kv_heads", "heads of keys and values (kv_heads)"}}},
  [nn.TransformerBlock] = {columns = {"fc1"}, rows = {"fc2"}, norms = {"norm1", "norm2"}, block = true},
  [nn.SwiGLU] = {columns = {"gate_proj", "up_proj"}, rows = {"down_proj"}},
  [nn.MixtureOfExperts] = {experts = {"up", "down", "up_scale", "down_scale"}}, -- scales: of nn.Int8Experts
}

-- Parts of models, by the names of their classes, so that a model that is not used is not loaded.
local by_name = {
  ["models.llama.Block"] = {norms = {"norm1", "norm2"}, block = true},
  ["models.moe.Block"] = {norms = {"norm1", "norm2"}, block = true},
  ["models.resnet.Block"] = {images = true},
  ["models.gpt2"] = {tables = {"wte"}, positions = {"wpe"}, norms = {"ln_f"}, heads = {"lm_head"}},
  ["models.moe"] = {tables = {"wte"}, positions = {"wpe"}, norms = {"ln_f"}, heads = {"lm_head"}},
  ["models.llama"] = {tables = {"embed_tokens"}, norms = {"norm"}, heads = {"lm_head"}},
}

-- Of a module's class or the nearest one above it; nil: it stays whole.
return function(module)
  local class = getmetatable(module)
  while type(class) == "table" do
    local known = classes[class] or by_name[rawget(class, "__name")]
    if known then return known end
    local above = getmetatable(class)
    class = above and above.__index
  end
end
