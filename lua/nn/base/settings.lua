-- settings.lua - the settings of a module: the values besides tensors with which the module computes (heads, strides,
-- eps...).
--
-- Two modules of one class compute equal results if their tensors and their settings are equal (except the settings
-- in `free`). Checkpoints save settings (lua/checkpoint.lua). A field that is added to a class later must be nil by
-- default, or older checkpoints are refused. The meaning of fields of a user's class is unknown, so the class names
-- its settings: function Net:settings() return {window = self.window} end.

local check = require "rille.base.check"
local layout = require "rille.base.layout"
local reach = require "rille.step.reach"
local trace = require "rille.step.trace"

local settings = {}

local made_of = setmetatable({}, {__mode = "k"}) -- module -> names of the fields that its constructor set

local list_fields -- function, defined below

-- Records that a module's constructor has ended. Fields that are set later belong to the user.
function settings.made(module, names)
  made_of[module] = {}
  reach.object(module, list_fields)
  for _, name in ipairs(names) do made_of[module][name] = true end
end

settings.nowhere = {training = true, theirs = true} -- names of fields that do not influence results

-- Fields that are settings, but may differ between two runs of one training: they influence only training, or the
-- maximum length.
local free = {dropout = true, p = true, momentum = true, label_smoothing = true, length = true}

local function is_plain(v)
  local kind = type(v)
  return kind == "number" or kind == "string" or kind == "boolean"
end

-- Converts a list of plain values to one value: the common value (a stride {2, 2} equals 2), or a text if the values differ.
-- Returns nil for any other table.
local function as_one(t)
  local texts, same = {}, true
  for i, v in ipairs(t) do
    if not is_plain(v) then return nil end
    texts[i], same = tostring(v), same and v == t[1]
  end
  for key in pairs(t) do
    if not texts[key] then return nil end
  end
  return same and t[1] or ("{%s}"):format(table.concat(texts, ", "))
end

local function is_module(v) return made_of[v] ~= nil end
settings.is_module = is_module

-- Returns true for fields of Rille's modules that are not settings.
local function is_other(t, key)
  return settings.nowhere[key] or free[key] or made_of[t] and not made_of[t][key]
end

local function nothing() return false end

-- Returns true if v is not a module and has a settings function.
local function speaks(v)
  return type(v) == "table" and getmetatable(v) ~= nil and not is_module(v) and type(v.settings) == "function"
end
settings.speaks = speaks

local DEEPEST <const> = 4000 -- maximum length of a path, bytes

-- Reads the settings of a module's table, or of an object with a settings function, into out. Skips nested modules,
-- which have their own settings. who: prefix of messages. left_out(t, key): returns true if the field is not a
-- setting. strange(name, v): called for a value that is not a number, string or boolean.
local function read(t, path, who, seen, out, left_out, strange)
  check.that(#path < DEEPEST, "%s: '%s...' is nested too deep", who, path:sub(1, 60))
  if seen[t] then return end
  seen[t] = true
  for key, v in pairs(t) do
    local name = path .. check.named(key)
    if left_out(t, key) then
      -- not a setting
    elseif is_plain(v) then
      out[name] = v
    elseif type(v) == "table" and getmetatable(v) == nil and #v > 0 and as_one(v) ~= nil then
      out[name] = as_one(v)
    elseif type(v) == "table" and getmetatable(v) == nil then
      read(v, name .. ".", who, seen, out, left_out, strange)
    elseif speaks(v) then
      check.that(not seen[v], "%s: the settings of '%s' contain themselves", who, name)
      local said = v:settings()
      check.that(type(said) == "table" and getmetatable(said) == nil, "%s: the settings of '%s' must be a table, {name = value}, found %s",
        who, name, check.shown(said))
      seen[v] = true
      read(said, name .. ".", who, seen, out, left_out, strange)
      seen[v] = nil -- clears the mark, because the object may occur again under another name
    else
      strange(name, v)
    end
  end
end

-- Returns {["how.stride"] = 2, eps = 1e-5}: numbers, strings and booleans by field path; list members count from 1.
function settings.of(module)
  local out = {}
  read(module, "", module.__name, {}, out, is_other, nothing)
  return out
end

-- Returns the settings of the member `name` of a module or table. The member must have a settings function.
function settings.said(module, name)
  local out = {}
  read({[name] = module[name]}, "", module.__name or "a model", {}, out, nothing, nothing)
  return out
end

-- Returns the settings that a module's class names, in the form of settings.of(); nil: none. A field `settings` that
-- is not a function belongs to the user's class, and is ignored.
function settings.named(module)
  local who, out, field = module.__name .. ":settings", {}, rawget(module, "settings")
  if field ~= nil and type(field) ~= "function" then return nil end
  check.that(type(module.settings) == "function", "%s must be a function that returns a table, {name = value}, found %s", who,
    check.shown(module.settings))
  local named = module:settings()
  if not named then return nil end
  check.that(type(named) == "table" and getmetatable(named) == nil, "%s must return a table, {name = value}, found %s", who, check.shown(named))
  read(named, "", who, {}, out, nothing, function(name, v)
    check.fail("%s: '%s' is %s; settings must be numbers, strings, booleans or tables of them", who, name, check.shown(v))
  end)
  return out
end

-- Returns the name of the Rille class whose forward the module runs, directly or through a subclass; nil if the
-- user's class has its own forward.
function settings.class_of(m)
  if not check.is_own(m.forward) or m.init and not check.is_own(m.init) then return nil end
  local class = getmetatable(m)
  while not rawget(class, "forward") do class = getmetatable(class).__index end
  return class.__name
end

-- ---- the fields of modules on which compiled steps depend ----

-- Returns true if the module's class is a Rille class with a forward, or extends one.
local function extends_ours(m)
  local class = getmetatable(m)
  while class.__name ~= "nn.Module" do
    if check.is_own(rawget(class, "forward")) then return true end
    class = getmetatable(class).__index
  end
  return false
end

-- Returns true for a layer, and for a tensor that is a parameter, a leaf with gradient, or a buffer.
local function is_part(v, kind)
  if not layout.is_tensor(v) then return type(v) == "table" and is_module(v) end
  return kind == "buffer" or v.is_leaf and (kind ~= nil or v.requires_grad)
end

-- Returns true if `value` becomes a new part of m, such as a bias, and m is a module of Rille that some step has
-- traced.
function settings.grows(m, value) return trace.has_met(m) and is_part(value) and settings.class_of(m) ~= nil end

-- Returns the names of the fields with which m, one of Rille's modules, computes.
local function fields_of(m)
  local names = {}
  for name in pairs(made_of[m]) do names[#names + 1] = name end
  for name, v in next, m do
    if not made_of[m][name] and is_part(v) then names[#names + 1] = name end
  end
  local n = rawlen(m)
  -- adds the first free index, so that an appended member counts as a change
  if n > 0 then names[#names + 1] = n + 1 end
  return names
end

-- Returns true if m is an instance of a user's class.
function trace.is_users(m)
  local class = is_module(m) and settings.class_of(m)
  return class == nil or class == "nn.Module" -- a plain nn.Module is a container for fields of the user
end

-- Returns the set of the fields of m that user code may have set: all but the training mode, and results of operators, which
-- layers leave for the user.
local function open_fields(m)
  local keys = {}
  for key, v in next, m do
    if key ~= "training" and not (layout.is_tensor(v) and not v.is_leaf) then keys[key] = true end
  end
  return keys
end

-- Reports the fields of m that compiled steps follow, as the walk of lua/step/reach.lua requires: calls note(m, key)
-- for each field, visit(member, key) for each module in m, and offer(m, keys) for fields that user code may read by name.
function list_fields(m, note, visit, offer)
  offer(m, open_fields(m))
  for _, key in ipairs(fields_of(m)) do note(m, key) end
  note(m, "forward")
  local function visit_members(t, seen)
    seen[t] = true
    for key, v in next, t do
      if is_module(v) then visit(v, key) elseif type(v) == "table" and getmetatable(v) == nil and not seen[v] then visit_members(v, seen) end
    end
  end
  visit_members(m, {})
end

-- Called for each module call during tracing: makes the trace depend on the module's fields, so that the step is
-- retraced after a change. Training modes are followed separately.
function settings.follow(m)
  if not made_of[m] or not trace.meets(m) then return end
  if extends_ours(m) then trace.follow(m, fields_of(m)) end
  if not settings.class_of(m) then trace.follow_all(m, m.__name) end
  trace.follow(m, {"forward"})
end

return settings
