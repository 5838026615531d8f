-- language.lua - common parts of language models: sizes, ids, logits, Hugging Face files.
--
-- A kind of model is a table:
--   name, class, options   the class, an extension of Model, is created with a config; further options
--   complete(config, who)  sets options that depend on others, and checks them; who: prefix of messages
--   names                  rows {theirs, ours, ours, ...}: a tensor of the files, and the parameters joined in it
--                          along axis 0; turn = true: the tensor is transposed in the file. %d stands for a layer.
--   prefix, ignored        optional prefix of the files' names; patterns of names in files to ignore
--   read_bin               reads a .bin file, like read_folder of files.lua; none: .bin files are not supported
--   counts                         keys of config.json that are positive integers; false: optional
--   words                          other keys, all optional, and their checks: f(who, key, value)
--   from_config(c, contents, dir), to_config(config)   convert config.json to Rille's options, and back; contents:
--                                  the file's tensors; dir: the folder, nil for GGUF files
--   after_save(name, dir, config)  writes more files into a saved folder
--   unsaid                         keys to save for a model that did not come from a config.json, because their
--                                  defaults differ from Rille's
--   is_complete                    true: from_config returns a complete config; the kind has no options and no `new`
-- A class has features(ids, given), (batch, length) -> (batch, length, width), start() and a layer lm_head. given:
-- options of given.lua, or a key/value cache (cache.lua).

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local Module = require "rille.nn.base.module"
local files = require "rille.models.loading.files"
local new_given = require "rille.models.given"

local language = {}

local Model = Module:extend("models.Model")
language.Model = Model

function Model:init(config) self.config = config end

function Model:check_ids(ids)
  check.that(layout.is_tensor(ids) and ids.ndim == 2 and layout.is_integer(ids),
    "%s: ids must be integers in a tensor (batch, length), found %s", self.__name,
    layout.is_tensor(ids) and ("%s of %d dimensions"):format(ids.dtype, ids.ndim) or check.shown(ids))
  check.that(ids.shape[2] <= self.config.length, "%s: ids have %d positions, more than the model's %d", self.__name, ids.shape[2],
    self.config.length)
end

-- Checks the ids and options of a forward pass. Returns the cache, or the object of given.lua; nil: the pass needs
-- neither.
function language.pass(model, ids, given)
  model:check_ids(ids)
  return new_given(model.__name, ids, given)
end

-- Converts features to f32 logits (batch, length, vocab).
function Model:logits(x)
  local y = self.lm_head(x)
  return y.dtype == "f32" and y or y:to("f32")
end

function Model:forward(ids, given) return self:logits(self:features(ids, given)) end

-- Returns the layout in which the model expects ids.
function Model:__input_layout() return rille.parallel.input(self) end

function Model:generate(ids, options) return require("rille.models.generation.generate")(self, ids, options) end

function Model:scheduler(options) return require("rille.models.generation.scheduler").new(self, options) end

function Model:save(dir, options) return files.save(self.kind, self, dir, options) end

function Model:describe()
  local c = self.config
  return ("%d layers of width %d, %d heads, %d ids"):format(c.layers, c.width, c.heads, c.vocab)
end

check.strict("models", Model, true)

local sizes = {"vocab", "length", "layers", "heads", "width"}

-- Checks of options that more than one kind has: f(who, name, value). Missing options are not checked.
local checks = {hidden = check.count, kv_heads = check.count, head_dim = check.count, rotary_size = check.count, dropout = check.share,
  eps = check.eps, theta = check.positive, qkv_bias = check.flag, out_bias = check.flag, mlp_bias = check.flag, tied = check.flag}

-- Checks that the width is divisible by the number of heads.
function language.check_heads(who, c)
  check.that(c.width % c.heads == 0, "%s: width = %d must be divisible by heads = %d; heads = %s would do", who, c.width, c.heads,
    check.divisors(c.width))
end

-- Checks and completes the options of `new`, or of a file. Returns the config, and the options of the layout
-- {placement =, sbp =, dtype =}.
local function read_options(kind, who, given)
  local known = {placement = check.none, sbp = check.none, dtype = "f32"}
  for name, value in pairs(kind.options) do known[name] = value end
  for _, name in ipairs(sizes) do known[name] = check.none end
  local config = check.options(who, given, known)
  for _, name in ipairs(sizes) do check.count(who, name, config[name]) end
  for _, name in ipairs(check.sorted_keys(checks)) do
    if config[name] ~= nil then checks[name](who, name, config[name]) end
  end
  layout.check_placement(who, config.placement)
  local where = {placement = config.placement, sbp = config.sbp, dtype = config.dtype}
  config.placement, config.sbp, config.dtype = nil, nil, nil
  kind.complete(config, who)
  return config, where
end

-- Moves a model to a layout. where: options of to_global, in which sbp may be a function of the parameter's name;
-- without options the model is not moved.
function language.place(model, where)
  if not where.placement and not where.sbp then return end
  local placement, sbp = where.placement or model:parameters()[1].placement, where.sbp
  local whole, list = layout.replicated(placement), {}
  if type(sbp) ~= "function" then return model:to_global{placement = placement, sbp = sbp or whole} end
  for name, p in model:named_parameters() do list[#list + 1] = {name, p, {placement = placement, sbp = sbp(name) or whole}} end
  for name, t in model:named_buffers() do list[#list + 1] = {name, t, {placement = placement, sbp = sbp(name) or whole}} end
  rille._lay(model.__name .. ": sbp", list)
end

-- Completes a kind of model (head of this file): adds the functions new and load. Returns the public table
-- rille.models.NAME: {new =, load =}.
function language.kind(kind)
  kind.class.kind = kind
  check.strict_class(kind.class)

  -- Returns a model with uninitialised parameters.
  function kind.empty(config, where)
    local model = kind.class(config)
    if where.dtype then model:to(where.dtype) end
    language.place(model, where)
    return model
  end

  local api = {}
  function api.new(given, more)
    local who = "models." .. kind.name .. ".new"
    check.that(more == nil, "%s: expected one table of options, including placement, sbp and dtype; found %s as a second argument",
      who, check.shown(more))
    local config, where = read_options(kind, who, given)
    local model = kind.empty(config, where)
    model:start()
    return model
  end

  function api.load(path, given)
    local known = {placement = check.none, sbp = check.none, dtype = check.none, quantize = check.none,
      parallel = check.none, strict = true}
    if kind.options.dropout then known.dropout = check.none end -- the file's dropout rate was for its own training
    local options = check.options("models." .. kind.name .. ".load", given, known)
    layout.check_placement("models." .. kind.name .. ".load", options.placement)
    return files.load(kind, path, options, function(config)
      if kind.is_complete then return config end
      config.dropout = options.dropout
      -- an error needs no file name here, because files.lua adds it
      return (read_options(kind, "models." .. kind.name, config))
    end)
  end
  return check.names("models." .. kind.name, api)
end

return language
