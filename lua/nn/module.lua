-- module.lua - the base of every layer and of every network.
--
--   local Net = nn.Module:extend("Net")          a class
--   function Net:init(d) self.fc = nn.Linear(d, d) end
--   function Net:forward(x) return self.fc(x):relu() end
--   local net = Net(64)                          an instance
--   local y = net(x)                             calls forward
--
-- An instance is a plain table. It remembers the order in which its fields were
-- first set; walking them in that order finds its parts: tensors that were
-- parameters when they were set, modules, and tables of these. A table's list
-- part counts from 0 in names, as in every checkpoint.

local rille = require "rille"
local check = require "rille.check"
local layout = require "rille.layout"

local Module = {__name = "nn.Module", training = true}
Module.__index = Module

local order_of = setmetatable({}, {__mode = "k"}) -- instance -> names of its fields, first set first
local parameter_of = setmetatable({}, {__mode = "k"}) -- instance -> set of the names that hold parameters

function Module.__newindex(self, name, value)
  local order = order_of[self]
  order[#order + 1] = name
  if layout.is_tensor(value) and value.requires_grad then parameter_of[self][name] = true end
  rawset(self, name, value)
end

function Module.__call(self, ...) return self:forward(...) end

local function construct(class, ...)
  local self = setmetatable({}, class)
  order_of[self], parameter_of[self] = {}, {}
  if class.init then class.init(self, ...) end
  return self
end

-- A class under this one. Metamethods are copied, for Lua does not inherit them.
function Module:extend(name)
  check.that(type(name) == "string", "%s:extend: a class has a name", self.__name)
  local class = {}
  for key, value in pairs(self) do
    if type(key) == "string" and key:sub(1, 2) == "__" then class[key] = value end
  end
  class.__name, class.__index = name, class
  return setmetatable(class, {__index = self, __call = construct})
end

function Module:forward()
  check.fail("%s has no forward", self.__name)
end

local function is_module(v)
  return type(v) == "table" and order_of[v] ~= nil
end

-- ---- walking ----

-- A list's members count from 0 in names.
local function name_in_path(key)
  return math.type(key) == "integer" and tostring(key - 1) or key
end

-- Calls visit(name, part, known) for what a module or a plain table holds, in order of definition.
-- known: the part was a parameter when it was set (it may have been frozen since).
local function each_part(v, visit)
  if is_module(v) then
    for _, key in ipairs(order_of[v]) do visit(name_in_path(key), rawget(v, key), parameter_of[v][key]) end
  elseif getmetatable(v) == nil then
    for i, part in ipairs(v) do visit(name_in_path(i), part) end
    for _, key in ipairs(check.sorted_keys(v)) do visit(key, v[key]) end
  end
end

-- Calls on_module(m) and on_parameter(path, p) for all that is in v; each module and table once, however it is reached.
local function walk(v, path, seen, on_module, on_parameter)
  if seen[v] then return end
  seen[v] = true
  if is_module(v) then on_module(v) end
  each_part(v, function(name, part, known)
    if layout.is_tensor(part) then
      if known or part.requires_grad then on_parameter(path .. name, part) end
    elseif type(part) == "table" then
      walk(part, path .. name .. ".", seen, on_module, on_parameter)
    end
  end)
end

local function nothing() end

-- All names of parameters with their tensors: {{name, tensor}, ...}. A tensor that has two names is there twice.
local function entries(module)
  local list = {}
  walk(module, "", {}, nothing, function(name, p) list[#list + 1] = {name, p} end)
  return list
end

-- The modules in this one, itself first.
function Module:modules()
  local list = {}
  walk(self, "", {}, function(m) list[#list + 1] = m end, nothing)
  return list
end

-- Each parameter once, under its first name: for name, p in net:named_parameters() do
function Module:named_parameters()
  local list, seen, i = entries(self), {}, 0
  return function()
    repeat i = i + 1 until not list[i] or not seen[list[i][2]]
    if not list[i] then return nil end
    seen[list[i][2]] = true
    return list[i][1], list[i][2]
  end
end

function Module:parameters()
  local list = {}
  for _, p in self:named_parameters() do list[#list + 1] = p end
  return list
end

-- Calls fn on every module, parts before the whole.
function Module:apply(fn)
  local list = self:modules()
  for i = #list, 1, -1 do fn(list[i]) end
  return self
end

-- ---- state ----

-- name -> value of each parameter as it is now; later updates do not change it.
function Module:state_dict()
  local state = {}
  for _, entry in ipairs(entries(self)) do state[entry[1]] = entry[2]:detach() end
  return state
end

local function same_shape(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return true
end

local function shape_text(shape) return "{" .. table.concat(shape, ", ") .. "}" end

-- What keeps state from being loaded, as lines of text.
local function mismatches(list, state)
  local wrong, known = {}, {}
  for _, entry in ipairs(list) do
    local name, p = entry[1], entry[2]
    local value = state[name]
    known[name] = true
    if not layout.is_tensor(value) then
      wrong[#wrong + 1] = ("'%s' is missing"):format(name)
    elseif not same_shape(p.shape, value.shape) then
      wrong[#wrong + 1] = ("'%s' is %s here, %s in what is loaded"):format(name, shape_text(p.shape), shape_text(value.shape))
    end
  end
  for _, name in ipairs(check.sorted_keys(state)) do
    if not known[name] then wrong[#wrong + 1] = ("'%s' is not a parameter of this module"):format(name) end
  end
  return wrong
end

-- Copies values into the parameters, which keep their layout and identity. All or nothing.
function Module:load_state_dict(state)
  check.that(type(state) == "table", "%s:load_state_dict takes a table of tensors, not a %s", self.__name, type(state))
  local list = entries(self)
  local wrong = mismatches(list, state)
  check.that(#wrong == 0, "%s:load_state_dict: %s", self.__name, table.concat(wrong, "; "))
  rille.no_grad(function()
    for _, entry in ipairs(list) do entry[2]:copy_(state[entry[1]]) end
  end)
  return self
end

-- ---- modes and places ----

function Module:train(on)
  if on == nil then on = true end
  for _, m in ipairs(self:modules()) do rawset(m, "training", on) end
  rille._epoch()
  return self
end

function Module:eval() return self:train(false) end

-- Lays every parameter out anew, in place: net:to_global{placement = P, sbp = "B"}.
function Module:to_global(options)
  for _, p in self:named_parameters() do p:to_global_(options) end
  return self
end

-- ---- looking ----

-- What stands in the parentheses when a layer is printed; layers say their sizes here.
function Module:describe() return "" end

-- Calls visit(name, module) for the modules directly in v, also those in its tables.
local function each_member(v, path, visit)
  each_part(v, function(name, part)
    if is_module(part) then visit(path .. name, part)
    elseif type(part) == "table" then each_member(part, path .. name .. ".", visit) end
  end)
end

function Module.__tostring(self)
  local lines = {}
  each_member(self, "", function(name, member)
    lines[#lines + 1] = ("  (%s): %s"):format(name, (tostring(member):gsub("\n", "\n  ")))
  end)
  if #lines == 0 then return ("%s(%s)"):format(self.__name, self:describe()) end
  return ("%s(\n%s\n)"):format(self.__name, table.concat(lines, "\n"))
end

return setmetatable(Module, {__call = construct})
