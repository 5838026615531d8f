-- settings.lua - what a module computes with besides its tensors: heads, strides, eps... Two modules of one class, the same
-- tensors and the same settings give the same results, up to what `free` names. Checkpoints keep them (lua/checkpoint.lua): a
-- field that a class gets later is nil where nobody asks for it, or older checkpoints are refused. What fields of a user's
-- class mean is not known: it names its settings itself, function Net:settings() return {window = self.window} end.

local check = require "rille.check"
local layout = require "rille.layout"
local reach = require "rille.reach"
local trace = require "rille.trace"

local settings = {}

local made_of = setmetatable({}, {__mode = "k"}) -- module -> the names of the fields that it was made with

local list_fields -- below

-- A module is made: fields that it gets from now on are its user's.
function settings.made(module, names)
  made_of[module] = {}
  reach.object(module, list_fields)
  for _, name in ipairs(names) do made_of[module][name] = true end
end

settings.nowhere = {training = true, theirs = true} -- fields that are no part of what a model computes with

-- What may change from one run of a training to the next: what training alone depends on, and how far positions go.
local free = {dropout = true, p = true, momentum = true, label_smoothing = true, length = true}

local function is_plain(v)
  local kind = type(v)
  return kind == "number" or kind == "string" or kind == "boolean"
end

-- A list of plain values as one: that of all of them, since a stride of 2 is one of {2, 2}, or a text; nil: it is none.
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

-- Fields of one of our modules that are none of its settings.
local function is_other(t, key)
  return settings.nowhere[key] or free[key] or made_of[t] and not made_of[t][key]
end

local function nothing() return false end

-- Does it say its settings itself? Modules do, too, but for themselves.
local function speaks(v)
  return type(v) == "table" and getmetatable(v) ~= nil and not is_module(v) and type(v.settings) == "function"
end
settings.speaks = speaks

local DEEPEST <const> = 4000 -- bytes of a path

-- A table of a module's, or what says its settings itself; modules within say their own. who: in whose name. left_out(t, key):
-- is it no setting? strange(name, v): it is none of what settings are made of.
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
      check.that(not seen[v], "%s: '%s' has itself among its settings", who, name)
      local said = v:settings()
      check.that(type(said) == "table" and getmetatable(said) == nil, "%s: the settings of '%s' are a table, {name = value}, not %s",
        who, name, check.shown(said))
      seen[v] = true
      read(said, name .. ".", who, seen, out, left_out, strange)
      seen[v] = nil -- it may be there under other names
    else
      strange(name, v)
    end
  end
end

-- {["how.stride"] = 2, eps = 1e-5}: numbers, texts and flags by the path of their field; members of lists count from 1.
function settings.of(module)
  local out = {}
  read(module, "", module.__name, {}, out, is_other, nothing)
  return out
end

-- The same of the member `name` of a module or a table, which speaks for itself.
function settings.said(module, name)
  local out = {}
  read({[name] = module[name]}, "", module.__name or "a model", {}, out, nothing, nothing)
  return out
end

-- The same of what a module's class names; nil: it names nothing. A field of that name which is no function is its user's.
function settings.named(module)
  local who, out, field = module.__name .. ":settings", {}, rawget(module, "settings")
  if field ~= nil and type(field) ~= "function" then return nil end
  check.that(type(module.settings) == "function", "%s is a function that gives a table, {name = value}, not %s", who,
    check.shown(module.settings))
  local named = module:settings()
  if not named then return nil end
  check.that(type(named) == "table" and getmetatable(named) == nil, "%s gives a table, {name = value}, not %s", who, check.shown(named))
  read(named, "", who, {}, out, nothing, function(name, v)
    check.fail("%s: '%s' is %s; settings are numbers, texts, flags and tables of them", who, name, check.shown(v))
  end)
  return out
end

-- The class of Rille's by which a module computes, whatever others call theirs; nil: it is its user's.
function settings.class_of(m)
  if not check.is_own(m.forward) or m.init and not check.is_own(m.init) then return nil end
  local class = getmetatable(m)
  while not rawget(class, "forward") do class = getmetatable(class).__index end
  return class.__name
end

-- ---- in compiled steps ----

-- Does the module compute with code of a class of Rille's, its own or one that it extends?
local function extends_ours(m)
  local class = getmetatable(m)
  while class.__name ~= "nn.Module" do
    if check.is_own(rawget(class, "forward")) then return true end
    class = getmetatable(class).__index
  end
  return false
end

-- A layer, or a tensor that is one's own and no result: one that learns, or a buffer.
local function is_part(v, kind)
  if not layout.is_tensor(v) then return type(v) == "table" and is_module(v) end
  return kind == "buffer" or v.is_leaf and (kind ~= nil or v.requires_grad)
end

-- Does a module of ours that a step has met get what it may compute with, now that it has it: a bias?
function settings.grows(m, value) return trace.has_met(m) and is_part(value) and settings.class_of(m) ~= nil end

-- The fields by which a module of ours computes.
local function fields_of(m)
  local names = {}
  for name in pairs(made_of[m]) do names[#names + 1] = name end
  for name, v in next, m do
    if not made_of[m][name] and is_part(v) then names[#names + 1] = name end
  end
  local n = rawlen(m)
  if n > 0 then names[#names + 1] = n + 1 end -- where a list ends
  return names
end

-- Is m a module of a user's class?
function trace.is_users(m) return is_module(m) and settings.class_of(m) == nil end

-- Lists what compiled steps follow of m, for lua/reach.lua.
function list_fields(m, note, visit)
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

-- A module is called: the step that is being traced, if there is one, is traced again once the module computes with something
-- else. Modes are followed apart.
function settings.follow(m)
  if not made_of[m] or not trace.meets(m) then return end
  if extends_ours(m) then trace.follow(m, fields_of(m)) end
  if not settings.class_of(m) then trace.follow_all(m, m.__name) end
  trace.follow(m, {"forward"})
end

return settings
