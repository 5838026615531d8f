-- misuse.lua - explains Lua's own errors ("attempt to index a nil value") for the message handler of the shell
-- (shell/run/run.c): adds a remedy and, if the error was raised inside Rille, names the user's line and the module.
--
-- The handler runs before the stack unwinds, so the objects of the failed expression are still local values.

local rille = require "rille"
local check = require "rille.base.check"

local Module = require "rille.nn.base.module"
local is_tensor = require "rille.base.layout".is_tensor

-- Calls visit(value, name) for the local values and temporaries of the function at this level, in order.
local function each_local(level, visit)
  for i = 1, math.huge do
    local name, value = debug.getlocal(level + 1, i)
    if not name then return end
    visit(value, name)
  end
end

-- Returns the value that Lua's error text names: "global 'net'", "local 'net'" or "upvalue 'net'" of the function at
-- this level.
local function named_value(level, kind, name)
  local found
  if kind == "global" then return _G[name] end
  if kind == "local" then
    each_local(level + 1, function(value, key) if key == name then found = value end end)
  elseif kind == "upvalue" then
    local fn = debug.getinfo(level + 1, "f").func
    for i = 1, math.huge do
      local key, value = debug.getupvalue(fn, i)
      if not key or key == name then return value end
    end
  end
  return found
end

-- Returns the object obj of a failed call obj:name(), made by the function at this stack level. The object is the
-- last object of Rille among the locals and temporary values of that function.
local function receiver(level)
  local found
  each_local(level + 1, function(value) if Module.__is(value) or rille._class_text(value) then found = value end end)
  return found
end

-- ---- adding remedies to Lua's own errors ----

-- A remedy is a function (level, captures...) that returns text to append, or nil. `level` is the stack level of the
-- function that failed.
local remedies = {
  {"^attempt to .* a nil value %(field 'grad'%)", function() return "no gradient was computed: call loss:backward() first" end},
  {"^attempt to %a+ a nil value %(global '([%w_]+)'%)", function(_, name) return rille._elsewhere("", name) end},
  {"^attempt to call a nil value %(method '([%w_]+)'%)", function(level, name)
    local object = receiver(level + 1)
    if not object then return nil end
    local near = rille._nearest(check.class_names(debug.getmetatable(object)), name)
    local first, input = debug.getlocal(level + 1, 1)
    if first ~= "self" and input == object and Module.__is(object) and debug.getinfo(level + 1, "f").func == object.forward then
      return ("'%s' is the module itself: declare function %s:forward(%s) with a colon"):format(first, object.__name, first)
    end
    local class = rille._class_text(object):gsub("^an? ", "")
    return ("%s has no method '%s'%s"):format(class, name, near and ("; the nearest name is '%s'"):format(near) or "")
  end},
  {"^attempt to %a+ a nil value %(field '([%w_]+)'%)", function(level, name)
    local key, self = debug.getlocal(level + 1, 1)
    if key ~= "self" or not Module.__is(self) or self[name] ~= nil then return rille._elsewhere("field", name) end
    return ("%s has no field '%s'; set self.%s in %s:init"):format(self.__name, name, name, self.__name)
  end},
  {"^attempt to call a table value %((%a+) '([%w_]+)'%)", function(level, kind, name)
    local list = named_value(level + 1, kind, name)
    local of_modules = type(list) ~= "table" and kind == "field" or type(list) == "table" and Module.__is(list[1])
    if type(list) == "table" and not of_modules then return nil end
    return ("call the modules of the list one by one: for _, m in ipairs(%s) do x = m(x) end; or make an nn.Sequential"):format(name)
  end},
  {"a function value %(field '([%w_]+)'%)", function(_, name) return ("call the method: x:%s()"):format(name) end},
  {"^attempt to compare .*function", function() return "call the method, as in x:item()" end},
  {"attempt to call a table value %(for iterator", function() return "write for i, x in ipairs(list) do, or pairs(table)" end},
  {"^bad argument #1 to 'for iterator' %(table expected, got nil", function() return "pairs and ipairs expect a table" end},
  {"number expected, got rille%.tensor", function() return "write x:item() for the number of a tensor of one element" end},
  {"table expected, got rille%.tensor", function() return "write x:totable() for a table, or pairs(x) for the rows" end},
  {"a nil value %(field 'integer index'%)", function() return "the list has no such entry; lists of Lua count from 1" end},
  {"a nil value %(field '%?'%)", function() return "the list has no such entry; lists of Lua count from 1" end},
}

local function remedy(text, level)
  for _, row in ipairs(remedies) do
    local found = table.pack(text:match(row[1]))
    local why = found[1] and row[2](level + 1, table.unpack(found))
    if why then return "; " .. why end
  end
  return ""
end

-- ---- explaining errors inside of Rille, and methods called with a dot ----

-- Returns the stack level of the first Lua function at `level` or above it, relative to the caller; skips C
-- functions.
local function first_lua(level)
  local info = debug.getinfo(level + 1, "S")
  while info and info.what == "C" do
    level = level + 1
    info = debug.getinfo(level + 1, "S")
  end
  return level
end

-- Returns the error text for a method that was called with a dot, so that its parameter self has the wrong type; nil:
-- no running method was called with a dot. For a method of Rille, the text replaces Lua's, which would name a line or
-- field that the user does not know.
local function dotted(text, level)
  while true do
    local info = debug.getinfo(level + 1, "Sn")
    if not info or info.what == "main" then return nil end
    local name, self = debug.getlocal(level + 1, 1)
    local wrong = name == "self" and type(self) ~= "table" and (type(self) ~= "userdata" or is_tensor(self))
    if info.what ~= "C" and wrong and info.namewhat == "field" and info.name then
      local how = info.name == "forward" and "write net(x), or net:forward(x) with a colon" or ("write x:%s(...), with a colon"):format(info.name)
      local why = ("%s is a method: %s (found self = %s)"):format(info.name, how, check.shown(self))
      if info.source:sub(1, 7) == "=rille." then return check.line() .. ": " .. why end
      return (text:find("attempt to ", 1, true) or text:find("has no field", 1, true)) and text .. "; " .. why or nil
    end
    if info.what ~= "C" and info.source:sub(1, 7) ~= "=rille." then return nil end
    level = level + 1
  end
end

-- Returns the module whose method, one of Rille's, raised the error; nil: none.
local function failed_module(level)
  while true do
    local info = debug.getinfo(level + 1, "S")
    if not info or info.what ~= "C" and info.source:sub(1, 7) ~= "=rille." then return nil end
    local name, self = debug.getlocal(level + 1, 1)
    if name == "self" and Module.__is(self) then return self end
    level = level + 1
  end
end

-- Returns the text for an error of Lua that was raised inside Rille.
local function inside(text, level)
  local self = failed_module(level + 1)
  if not self then return text end
  for i, member in ipairs(self) do
    if not rille._is_callable(member) then text = ("entry %d must be a module, found %s"):format(i, check.shown(member)) end
  end
  local field = Module.__spoilt(self)
  if field then text = ("'%s' must be a tensor, found %s"):format(field, check.shown(rawget(self, field))) end
  return ("%s: %s"):format(self.__name, text)
end

-- Returns the error text for the user. The message handler calls this function before the stack unwinds, so the
-- function that failed is still on the stack.
return function(text)
  local level = first_lua(3)
  local by_dot = not text:find("is a method", 1, true) and dotted(text, level)
  if by_dot then return by_dot end
  local place, own = text:match("^([^\n]-:%d+: )(.*)$")
  own = own or text
  if not (own:find("^attempt to ") or own:find("^bad ")) then return text end
  own = own .. remedy(own, level)
  local of_rille = place and place:find("^rille%.")
  if of_rille then own = inside(own, level) end
  return (place and not of_rille and place or check.line() .. ": ") .. own .. check.where(level)
end
