-- sentences.lua - vectors of texts, as in sentence-transformers: pooling of features, and the files that describe the
-- pooling.
--
-- modules.json lists the parts of a model: Transformer, Pooling (with a config.json in its folder), Normalize.

local check = require "rille.base.check"
local json = require "rille.json"
local optional = require "rille.models.loading.optional"
local rille = require "rille"

local sentences = {}

-- ---- pooling features to vectors ----

-- Pooling functions of features x (batch, length, width) with a mask, bool (batch, length, 1), or nil.
sentences.poolings = {
  cls = function(x) return x:slice(1, 0, 1):squeeze(1) end,
  mean = function(x, mask)
    if not mask then return x:mean{axis = 1} end
    local weight = mask:to(x.dtype)
    return (x * weight):sum{axis = 1} / weight:sum{axis = 1}:clamp(1e-9, math.huge)
  end,
  max = function(x, mask) return (mask and rille.where(mask, x, -math.huge) or x):max{axis = 1} end,
}

-- Returns the pooled features, (batch, width). name: of the pooling; mask: bool (batch, length), false at positions
-- to ignore, or nil.
function sentences.pool(name, x, mask)
  return sentences.poolings[name](x, mask and mask:reshape{mask.shape[1], mask.shape[2], 1})
end

-- Scales the vectors to norm 1.
function sentences.normalise(y) return y / y:square():sum{axis = -1, keepdim = true}:sqrt():clamp(1e-12, math.huge) end

-- ---- reading and writing the files that describe the pooling ----

local modes = {cls = "pooling_mode_cls_token", mean = "pooling_mode_mean_tokens", max = "pooling_mode_max_tokens"}

-- Returns the name of the pooling that the config.json of a Pooling part describes.
local function pooling_of(path)
  local c, found = optional(path), {}
  check.that(c, "%s: modules.json names the folder of this file, which is missing", path)
  if type(c.pooling_mode) == "string" then found[1] = c.pooling_mode end
  for word, value in pairs(c) do
    if type(word) == "string" and word:find("^pooling_mode_") and value == true then found[#found + 1] = word end
  end
  local name = #found == 1 and (modes[found[1]] and found[1])
  for mode, word in pairs(modes) do
    if #found == 1 and found[1] == word then name = mode end
  end
  check.that(name, "%s: expected one pooling mode, cls, mean or max, found %s", path, #found == 0 and "none" or table.concat(found, ", "))
  return name
end

-- Returns the pooling of a folder, and whether vectors are normalised; nil: the folder has no modules.json.
function sentences.read(dir)
  local path, pooling, normalise = dir .. "/modules.json", nil, nil
  for _, module in ipairs(optional(path) or {}) do
    local kind = type(module) == "table" and type(module.type) == "string" and module.type:match("[^.]+$")
    local at = type(module) == "table" and module.path
    if kind == "Pooling" and type(at) == "string" and not at:find("..", 1, true) then
      pooling = pooling_of(("%s/%s/config.json"):format(dir, at))
    elseif kind == "Normalize" then
      normalise = true
    else
      check.that(kind == "Transformer" and at == "",
        "%s: expected modules Transformer (in the folder itself), Pooling and Normalize, found %s in %s", path, check.quoted(kind), check.quoted(at))
    end
  end
  return pooling, normalise
end

-- Writes the files that describe the pooling of an encoder's config. model_type: used in messages.
function sentences.write(model_type, dir, config)
  if not config.pooling then return end
  local who = ("models.%s: save"):format(model_type)
  local list = {{idx = 0, name = "0", path = "", type = "sentence_transformers.models.Transformer"},
    {idx = 1, name = "1", path = "1_Pooling", type = "sentence_transformers.models.Pooling"}}
  if config.normalise then
    list[3] = {idx = 2, name = "2", path = "2_Normalize", type = "sentence_transformers.models.Normalize"}
  end
  local c = {word_embedding_dimension = config.width}
  for name, word in pairs(modes) do c[word] = name == config.pooling end
  rille._may_save(who, dir .. "/1_Pooling", "checkpoints") -- creates the folder
  rille._write(who, dir .. "/modules.json", json.encode(list) .. "\n")
  rille._write(who, dir .. "/1_Pooling/config.json", json.encode(c) .. "\n")
end

return sentences
