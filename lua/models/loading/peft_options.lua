-- peft_options.lua - the options of PEFT's adapter_config.json: checks the options, and finds the
-- modules to which they apply.
--
-- A module has its name in the base model's file. PEFT's options name modules by ends of names, or by regular
-- expressions of Python.

local rille = require "rille"
local check = require "rille.base.check"
local json = require "rille.json"

local options = {}

-- ---- the table of options ----

-- initialisations of PEFT that leave the base model's weights unchanged; others, such as "pissa", subtract the initial
-- adapter from the weights
local inits = {gaussian = true, orthogonal = true, eva = true, mica = true}

local function is_list(v, of)
  if type(v) ~= "table" then return false end
  for key, item in pairs(v) do
    if math.type(key) ~= "integer" or not (of == "integer" and math.tointeger(item) or type(item) == of) then return false end
  end
  return true
end

local function names(where, key, v)
  check.that(type(v) == "string" or is_list(v, "string"), "%s: %s must be a string or a list of strings, found %s", where, key, check.shown(v))
end

local function list_of_names(where, key, v)
  check.that(is_list(v, "string"), "%s: %s must be a list of strings, found %s", where, key, check.shown(v))
end

local function layers(where, key, v)
  check.that(math.tointeger(v) or is_list(v, "integer"), "%s: %s must be an integer or a list of integers, found %s", where, key, check.shown(v))
end

-- Returns a check of an object whose keys are regular expressions. of_value: the check of a value.
local function pattern(of_value)
  return function(where, key, v)
    check.that(type(v) == "table" and #v == 0, "%s: %s must be an object {\"name\": number}, found %s", where, key,
      type(v) == "table" and "an array" or check.shown(v))
    for name, value in pairs(v) do of_value(where, key .. "." .. name, value) end
  end
end

local function bias(where, key, v)
  check.that(v == "none" or v == "all" or v == "lora_only", "%s: %s must be \"none\", \"all\" or \"lora_only\", found %s", where, key, check.quoted(v))
end

local function init(where, key, v)
  check.that(v == true or inits[v],
    "%s: %s = %s is not supported, because it changes the base model's weights; convert the adapter with PEFT's path_initial_model_for_weight_conversion",
    where, key, check.quoted(v))
end

local function positive(where, key, v) check.number(where, key, v, 0) end
local function ignored() end

-- key of adapter_config.json -> check(where, key, value). Keys that are not listed may only have an empty value: null,
-- false, [], {} or "". Ignored options without a comment change neither the result nor the training
-- of an adapter.
local known = {
  peft_type = function(where, key, v) check.that(v == "LORA", "%s: %s must be \"LORA\", found %s", where, key, check.quoted(v)) end,
  r = check.count, lora_alpha = positive, lora_dropout = check.share, rank_pattern = pattern(check.count), alpha_pattern = pattern(positive),
  use_rslora = check.flag, use_dora = check.flag, lora_bias = check.flag, bias = bias, init_lora_weights = init,
  target_modules = names, target_parameters = list_of_names, exclude_modules = names, modules_to_save = list_of_names, layers_to_transform = layers, layers_pattern = names,
  fan_in_fan_out = ignored, -- the file of the base model says whether weights are transposed
  task_type = ignored, auto_mapping = ignored, base_model_name_or_path = ignored, revision = ignored, inference_mode = ignored,
  peft_version = ignored, runtime_config = ignored, megatron_core = ignored, qalora_group_size = ignored,
  -- options of initialisations, which init_lora_weights selects
  eva_config = ignored, corda_config = ignored, lora_ga_config = ignored, loftq_config = ignored,
}

local function is_empty(v) return v == nil or v == json.null or v == false or v == "" or type(v) == "table" and next(v) == nil end

-- Reads adapter_config.json. Returns its options without empty values. who: prefix of messages.
function options.read(who, path)
  local given, c, where = json.load(path, who), {}, who .. ": " .. path
  check.that(type(given) == "table" and getmetatable(given) == nil, "%s: expected a JSON object, found %s", where,
    given == json.null and "null" or type(given) == "table" and "an array" or check.shown(given))
  for _, key in ipairs(check.sorted_keys(given)) do
    local value = given[key]
    if not is_empty(value) then
      check.that(known[key], "%s: %s is not supported", where, check.named(key))
      known[key](where, key, value)
      c[key] = value
    end
  end
  for _, key in ipairs{"peft_type", "r", "lora_alpha"} do
    check.that(c[key] ~= nil, "%s: %s is missing", where, key)
  end
  check.that(c.target_modules ~= nil or c.target_parameters ~= nil, "%s: target_modules is missing", where)
  check.that(not (c.lora_bias and c.use_dora), "%s: lora_bias must be false if use_dora is true, found true", where)
  c.where = where
  return c
end

-- ---- finding the modules to which options apply ----

function options.ends_with(name, last) return name == last or name:sub(-#last - 1) == "." .. last end

-- Returns true if a module's name matches the regular expression `by` completely, or ends with a name of the list `by`.
function options.matches(where, by, name)
  if type(by) == "string" then return rille._matches(where, by, name) end
  for _, last in ipairs(by or {}) do
    if options.ends_with(name, last) then return true end
  end
  return false
end

-- Returns the index of the layer in a module's name; nil: none. by: a regular expression, or a list of them, for
-- the name of a list of layers; nil: any list.
local function layer_of(where, by, name)
  if not by then return math.tointeger(tonumber(name:match("%.[^.]*%.(%d+)%."))) end
  for list, index in name:gmatch("()%.(%d+)%f[.]") do
    for _, one in ipairs(type(by) == "string" and {by} or by) do
      if rille._matches(where, "(.*\\.)?(" .. one .. ")", name:sub(1, list - 1)) then return math.tointeger(tonumber(index)) end
    end
  end
end

local function has_layer(c, name)
  local wanted, found = c.layers_to_transform, layer_of(c.where, c.layers_pattern, name)
  if wanted == nil or type(c.target_modules) == "string" then return true end
  for _, index in ipairs(type(wanted) == "table" and wanted or {wanted}) do
    if found == math.tointeger(index) then return true end
  end
  return false
end

-- Returns true if PEFT saves a module completely. As in PEFT, an entry of modules_to_save selects each module whose name
-- ends with the entry, even if the entry begins within a word, and all modules within the selected module.
function options.saves(c, name)
  for _, last in ipairs(c.modules_to_save or {}) do
    local outer = name
    while outer do
      if outer:sub(-#last) == last then return true end
      outer = outer:match("^(.*)%.[^.]*$")
    end
  end
  return false
end

-- Returns true if PEFT adds an adapter to a tensor, which need not be the weight of a layer.
function options.targets_tensor(c, name) return options.matches(c.where, c.target_parameters, name) end

-- Returns true if PEFT adds an adapter to a linear layer or an embedding. is_linear: true for a linear layer that does
-- not compute the model's logits.
function options.targets(c, name, is_linear)
  if options.targets_tensor(c, name .. ".weight") then return true end
  if options.saves(c, name) or options.matches(c.where, c.exclude_modules, name) then return false end
  if c.target_modules == "all-linear" then return is_linear end
  return options.matches(c.where, c.target_modules, name) and has_layer(c, name)
end

-- Returns true if a regular expression matches the end of a module's name, from a dot on.
local function matches_end(where, expression, name)
  -- a folder may name every module, so names are compared without PCRE2; in Lua's patterns, "." has the same meaning
  if expression:find("[^%w_.]") then return rille._matches(where, "(.*\\.)?(" .. expression .. ")", name) end
  local from = name:find(expression .. "$")
  return from == 1 or from ~= nil and name:sub(from - 1, from - 1) == "."
end

-- Returns the value of rank_pattern or alpha_pattern for a module; without a match, `default`.
local function of_pattern(c, key, name, default)
  local value
  for expression, other in pairs(c[key] or {}) do
    if matches_end(c.where, expression, name) then
      check.that(not value or value == other, "%s: two keys of %s match the module '%s', with different values", c.where, key, name)
      value = other
    end
  end
  return value or default
end

function options.rank(c, name) return of_pattern(c, "rank_pattern", name, c.r) end
function options.alpha(c, name) return of_pattern(c, "alpha_pattern", name, c.lora_alpha) end

return options
