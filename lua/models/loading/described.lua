-- described.lua - checks that a model matches its config before the model is saved. A folder stores only the config and
-- the tensors that the config implies, so a model with added or replaced parts would be loaded differently.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local settings = require "rille.nn.base.settings"

local is_module = settings.is_module

local function shape_text(t) return "{" .. table.concat(t.shape, ", ") .. "}" end

-- Returns a table from name to {tensor, first name of that tensor}; tied names have the same first name.
local function first_names(model)
  local first, of = {}, {}
  for _, found in ipairs(model:named_tensors()) do
    first[found.tensor] = first[found.tensor] or found.name
    of[found.name] = {tensor = found.tensor, first = first[found.tensor]}
  end
  return of
end

local function compare_tensors(model, want, wrong)
  local have, wants = first_names(model), first_names(want)
  for _, name in ipairs(check.sorted_keys(wants)) do
    local a, b = have[name], wants[name]
    if not a then
      wrong[#wrong + 1] = ("'%s' is missing"):format(name)
    elseif shape_text(a.tensor) ~= shape_text(b.tensor) then
      wrong[#wrong + 1] = ("'%s' is %s; the config says %s"):format(name, shape_text(a.tensor), shape_text(b.tensor))
    elseif a.first ~= b.first then
      wrong[#wrong + 1] = a.first == name and ("'%s' is a tensor of its own; the config says '%s'"):format(name, b.first)
        or ("'%s' is '%s'; the config says %s"):format(name, a.first, b.first == name and "a tensor of its own" or "'" ..
          b.first .. "'")
    end
  end
  for _, name in ipairs(check.sorted_keys(have)) do
    if not wants[name] and not name:find("%.lora_%w+$") then wrong[#wrong + 1] = ("'%s' is not in the model that the config describes"):format(name) end
  end
end

-- Compares the settings of a[key] and b[key], and calls differs() for each setting that is not equal in both.
local function compare_said(a, b, key, differs)
  local ours, theirs = settings.said(a, key), settings.said(b, key)
  for name, y in pairs(theirs) do
    if ours[name] ~= y then differs(name, ours[name], y) end
  end
  for name, x in pairs(ours) do
    if theirs[name] == nil then differs(name, x) end
  end
end

-- Appends a text to `wrong` for each field of b whose value in a differs. a, b: modules or tables. Skips tensors,
-- which compare_tensors() compares.
local function compare_fields(a, b, path, wrong)
  local function differs(key, x, y)
    wrong[#wrong + 1] = ("'%s%s' is %s; the config says %s"):format(path, key, check.shown(x), check.shown(y))
  end
  local adapted = getmetatable(a) == rille.nn.LoRA and (getmetatable(b) == rille.nn.Linear or getmetatable(b) == rille.nn.Embedding)
  if getmetatable(a) ~= getmetatable(b) and not adapted then
    wrong[#wrong + 1] = ("'%s' is %s; the config says %s"):format(path:sub(1, -2), is_module(a) and a.__name or "a table",
      is_module(b) and b.__name or "a table")
    return
  end
  if #a ~= #b then wrong[#wrong + 1] = ("'%s' has %d members; the config says %d"):format(path:sub(1, -2), #a, #b) end
  for key, y in pairs(b) do
    local x = rawget(a, key)
    local name = math.type(key) == "integer" and key - 1 or key
    if settings.nowhere[key] or layout.is_tensor(y) or rawequal(x, y) or getmetatable(b) == rille.nn.Dropout then
      -- skips a shared object, or a field without influence on results
    elseif type(y) ~= "table" then
      if x ~= y then differs(name, x, y) end
    elseif type(x) ~= "table" then
      differs(name, x, y)
    elseif is_module(y) or getmetatable(y) == nil then
      compare_fields(x, y, path .. name .. ".", wrong)
    elseif settings.speaks(y) then
      compare_said(a, b, key, differs)
    end
  end
  for key, x in pairs(a) do
    if type(x) == "function" and rawget(b, key) == nil and b[key] then
      wrong[#wrong + 1] = ("'%s%s' is a function that replaces the class's own"):format(path, key)
    end
  end
end

-- Fails with a list of all differences between the model and its config. kind: the kind of model (language.lua). The
-- config gives a reference model; creating it does not change the random state.
return function(who, kind, model)
  local seed, count = rille._random()
  local want, wrong = kind.class(model.config), {}
  rille._random(seed, count)
  compare_tensors(model, want, wrong)
  if #wrong == 0 then compare_fields(model, want, "", wrong) end
  check.that(#wrong == 0, "%s: the model differs from its config, so the saved folder would load as another model: %s; " ..
    "rille.save(\"name.safetensors\", model) saves its tensors alone", who, check.problems(wrong))
end
