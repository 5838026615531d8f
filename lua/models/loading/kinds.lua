-- kinds.lua - kinds of models (language.lua): decoders and encoders with a description (describe.lua), and models
-- made of towers (towers.lua).

local check = require "rille.base.check"
local activations = require "rille.models.activations"
local Decoder = require "rille.models.decoder"
local describe = require "rille.models.loading.describe"
local Encoder = require "rille.models.encoder"
local language = require "rille.models.language"
local names = require "rille.models.loading.names"
local sentences = require "rille.models.sentences"
local words = require "rille.models.loading.words"
local check_scaling = require("rille.nn.sequence.rotary").check_scaling

local kinds = {}

local made, others = {}, {}
for _, list in ipairs{require("rille.models.towers.vision").kinds, require("rille.models.towers.clip").kinds,
  require("rille.models.towers.seq2seq").kinds, require("rille.models.towers.convnets").kinds} do
  for name, kind in pairs(list) do others[name] = kind end
end

local options = {}
for _, name in ipairs(describe.fields) do options[name] = check.none end

-- Checks the activation and the rotary positions of a config.
local function check_choices(config, who)
  local c = describe.complete(config)
  check.that(activations[c.activation], "%s: unknown activation %s; expected one of: %s", who, check.quoted(c.activation),
    table.concat(check.sorted_keys(activations), ", "))
  if not c.theta then return end
  check.that(c.rotary_size > 0 and c.rotary_size % 2 == 0 and c.rotary_size <= c.head_dim,
    "%s: rotary_size must be even and at most head_dim = %d, found %d", who, c.head_dim, c.rotary_size)
  if c.rope_scaling then check_scaling(who, "rope_scaling", c.rope_scaling, c.rotary_size) end
end

-- Completes the description d of an encoder, and returns it: adds the pooling that the folder describes, and removes
-- the pooler if the file has no tensors for it. Files with int8 weights use Rille's names of tensors.
local function complete_encoder(d, contents, dir)
  if d.is_causal ~= false then return d end
  if d.task == "pooled" then
    d.task = nil
    for _, entry in ipairs(contents) do
      if entry.name:find("pooler%.dense%.weight$") or entry.name:find("pooler%.weight$") or entry.name:find("^task_dense%.") then d.task = "pooled" end
    end
  end
  d.pooling, d.normalise = sentences.read(dir)
  return d
end

local function described(model_type, more)
  local kind = {
    name = model_type, class = (describe.is_encoder(model_type) and Encoder or Decoder):extend("models." .. model_type), prefix = names.prefix[model_type] or "model.",
    names = function(config) return names.rows(model_type, config) end,
    ignored = {"rotary_emb%.inv_freq$", "attention%.bias$", "attention%.masked_bias$", "attn%.bias$", "attn%.masked_bias$", table.unpack(names.ignored[model_type] or {})},
    from_config = function(c, contents, dir) return complete_encoder(describe.of(model_type, c, contents), contents, dir) end,
    to_config = function() return {model_type = model_type} end,
    counts = {}, words = words, options = options, complete = check_choices, after_save = sentences.write,
  }
  for name, value in pairs(more or {}) do kind[name] = value end
  return kind
end

-- Returns the public table {new =, load =} of a model_type, and its kind: the table of language.lua that says how
-- such a model is built and loaded. more: fields of the kind that replace those set here.
function kinds.of(model_type, more)
  if not made[model_type] then
    local kind = others[model_type] or described(model_type, more)
    made[model_type] = {language.kind(kind), kind}
  end
  return table.unpack(made[model_type])
end

-- Returns true if the model_type is supported here.
function kinds.has(model_type) return describe.known[model_type] ~= nil or others[model_type] ~= nil end

-- Returns the model types that are supported here.
function kinds.list()
  local list = check.sorted_keys(describe.known)
  for name in pairs(others) do list[#list + 1] = name end
  table.sort(list)
  return list
end

kinds.check_choices = check_choices

return kinds
