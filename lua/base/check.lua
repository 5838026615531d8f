-- check.lua - argument checks and error messages of Rille's Lua modules.
--
-- An error message carries the line of the user's program: the first Lua frame outside this folder. Options are passed
-- as one table. An unknown option name is an error and is never ignored.

local rille = require "rille"

local check = {}

local own = "=rille." -- prefix of the chunk names of Rille's own modules

-- Returns true if fn is a function of Rille's own modules.
function check.is_own(fn)
  return type(fn) == "function" and debug.getinfo(fn, "S").source:sub(1, #own) == own
end

-- Returns the stack level, relative to the caller, of the innermost Lua function outside this folder; 0 if there is
-- none.
local function users_level()
  local level = 3
  while true do
    local info = debug.getinfo(level, "S")
    if not info then return 0 end
    if info.what ~= "C" and info.source:sub(1, #own) ~= own then return level - 1 end
    level = level + 1
  end
end

-- Returns the line of the user's program that runs at present, such as "a.lua:3".
function check.line()
  local info = debug.getinfo(users_level(), "Sl")
  return ("%s:%d"):format(info.short_src, info.currentline)
end

-- Returns the definition line, "a.lua:3", of a forward method that the user wrote; nil if the method is Rille's.
local function forward_line(module)
  if check.is_own(module.forward) then return nil end
  local info = debug.getinfo(module.forward, "S")
  return ("%s:%d"):format(info.short_src, info.linedefined)
end

-- Returns where in a model an error occurred, as text for messages: " (in Net.blocks.3.fc1)", the path of the
-- innermost running module that is part of another module; "" if there is none. level: stack level of the caller at
-- which the search begins. If the user's forward ends with a tail call, return f(x), its line is no longer on the
-- stack. Then the text also has ", in the forward at a.lua:3".
function check.where(level)
  local module, path, is_users = package.loaded["rille.nn.base.module"], nil, false
  while module do
    level = level + 1
    local info = debug.getinfo(level, "Slf")
    if not info or is_users and path then break end
    local name, self
    if info.currentline >= 0 then name, self = debug.getlocal(level, 1) end
    is_users = is_users or info.what ~= "C" and info.source:sub(1, #own) ~= own
    if name == "self" and module.__is(self) then
      path = path or module.__path(self)
      local line = not is_users and info.func == module.__run and forward_line(self)
      if line then return (" (in %s, in the forward at %s)"):format(path or self.__name, line) end
    end
  end
  return path and (" (in %s)"):format(path) or ""
end
local where = check.where

function check.fail(format, ...)
  local text = format:format(...) .. where(2)
  error(text, users_level())
end

function check.that(condition, format, ...)
  if not condition then
    local text = format:format(...) .. where(2)
    error(text, users_level())
  end
end

-- Returns the text of a value for a message, with strings unquoted. Objects are shown by class; other tables, functions and
-- threads by type, because tostring() would print an address.
local function named(value)
  local class, kind = rille._class_text(value), type(value)
  if class then return class end
  if value ~= value then return "nan" end -- tostring() may print -nan
  local by_type = kind == "table" or kind == "function" or kind == "thread" or kind == "userdata"
  return by_type and "a " .. kind or tostring(value)
end
check.named = named

-- Returns the text of a value for a message; strings are quoted.
local function shown(value)
  return type(value) == "string" and '"' .. value .. '"' or named(value)
end
check.shown = shown

-- Returns the text of a value like shown(), with strings escaped (%q), for messages where a string could be mistaken
-- for a number.
local function quoted(value) return type(value) == "string" and ("%q"):format(value) or shown(value) end
check.quoted = quoted

-- Returns the text of a list for a message, such as {2, "x"}: at most eight entries.
function check.listed(list)
  local texts = {}
  for i = 1, math.min(#list, 8) do texts[i] = shown(list[i]) end
  if #list > 8 then texts[9] = "..." end
  return "{" .. table.concat(texts, ", ") .. "}"
end

-- Joins a list of problems for a message: lists the first eight, and says how many more there are.
function check.problems(wrong)
  local text = table.concat(wrong, "; ", 1, math.min(#wrong, 8))
  return #wrong > 8 and ("%s; and %d more"):format(text, #wrong - 8) or text
end

-- Calls fn like pcall: returns true and the results, or false and the error. An interrupt (Ctrl-C) is raised again
-- instead of being returned.
function check.try(fn, ...)
  local before = rille._interrupts()
  local results = table.pack(pcall(fn, ...))
  if not results[1] and rille._interrupts() ~= before then error(results[2], 0) end
  return table.unpack(results, 1, results.n)
end

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = named(key) end
  table.sort(keys)
  return keys
end
check.sorted_keys = sorted_keys

-- Returns the divisors of n for which good(d) is true, as text for messages: "1, 2, 4". The search tests divisors
-- below 65536, and adds their cofactors n / d. So the search finds all divisors of n < 2^32. For a greater n, which a
-- damaged file may contain, the list may be incomplete, but the search stays short.
function check.divisors(n, good)
  local list = {}
  for d = 1, math.min(n, 65535) do
    if d > n // d then break end
    if n % d == 0 then
      list[#list + 1] = d
      if n // d ~= d then list[#list + 1] = n // d end
    end
  end
  table.sort(list)
  local told = {}
  for _, d in ipairs(list) do
    if not good or good(d) then told[#told + 1] = tostring(d) end
  end
  return #told > 0 and table.concat(told, ", ") or "none"
end

-- Returns the known name that contains the given name ("num_layers" for "layers"); nil if there is none, or more than
-- one.
local function containing(known, name)
  local found
  for key in pairs(known) do
    if #name > 2 and named(key):find(name, 1, true) then
      if found then return nil end
      found = key
    end
  end
  return found
end

-- Returns the hint for an unknown option: Rille's name of another framework's option, or the nearest name.
function check.option_hint(who, name, known)
  local elsewhere = type(name) == "string" and rille._elsewhere(who:find("^nn%.") and "layer option" or who .. " option", name)
  if not elsewhere and type(name) == "string" then
    elsewhere = rille._elsewhere("option", name)
    elsewhere = elsewhere and known[elsewhere:match("^write ([%w_]+)")] ~= nil and elsewhere
  end
  local near = type(name) == "string" and not elsewhere and (rille._nearest(known, name) or containing(known, name))
  return elsewhere and ": " .. elsewhere or near and ("; the nearest name is '%s'"):format(near) or ""
end

-- Returns the given options, completed with the defaults. The default check.none declares an option without a default
-- value. An option whose default is a boolean must be a boolean.
check.none = {}
function check.options(who, given, defaults)
  local options = {}
  for name, value in pairs(defaults) do
    if value ~= check.none then options[name] = value end
  end
  check.that(given == nil or type(given) == "table", "%s: options must be a table, found %s", who, shown(given))
  for name, value in pairs(given or {}) do
    if defaults[name] == nil then
      check.fail("%s: unknown option '%s'%s; expected one of: %s", who, named(name), check.option_hint(who, name, defaults),
        table.concat(sorted_keys(defaults), ", "))
    end
    if type(defaults[name]) == "boolean" then check.flag(who, name, value) end
    options[name] = value
  end
  return options
end

-- ---- checking the number of arguments ----

-- Fails if n > most, that is, if a function that accepts at most `most` arguments was called with n. usage: text that
-- says how to call the function, or nil.
local function check_count(who, most, n, usage)
  if n <= most then return end
  check.fail("%s: expected %s, found %d%s", who, most == 0 and "no argument" or ("at most %d argument%s"):format(most,
    most == 1 and "" or "s"), n, usage or "")
end

local parameters = setmetatable({}, {__mode = "k"}) -- function -> number of parameters; false: unlimited

-- Fails if more arguments follow than `fn` has parameters. User functions and variadic functions accept any number.
-- Returns the number of parameters if fn is Rille's and not variadic; else false.
function check.arguments(who, fn, ...)
  local most = parameters[fn]
  if most == nil then
    local info = debug.getinfo(fn, "u")
    most = check.is_own(fn) and not info.isvararg and info.nparams
    parameters[fn] = most
  end
  local n = select("#", ...)
  if most and n > most - 1 then check_count(who, most - 1, n) end
  return most
end

-- Wraps fn in a function that fails if it receives more arguments than fn has parameters.
local function limited(who, fn)
  local most = debug.getinfo(fn, "u").nparams
  return function(...)
    local n = select("#", ...)
    if n > most then check_count(who, most, n, require("rille.pages").usage(who)) end
    return fn(...)
  end
end

check.limited = limited

-- Wraps fn like limited(), for use as a __call metamethod: the first argument, self, is not counted.
function check.limited_call(who, fn)
  local most = debug.getinfo(fn, "u").nparams
  return function(self, ...)
    local n = select("#", ...)
    if n >= most then check_count(who, most - 1, n, require("rille.pages").usage(who)) end
    return fn(self, ...)
  end
end

-- Wraps a method like limited_call(); also fails if the method is called with a dot instead of a colon.
local function limited_method(class, name, fn)
  local most = debug.getinfo(fn, "u").nparams
  return function(self, ...)
    if type(self) ~= "table" or check.field(self, name) == nil then
      check.fail("%s.%s is a method: write x:%s(...), with a colon", class, name, name)
    end
    if name ~= "extend" and rawget(self, "__name") and rawget(self, "__index") ~= nil then
      check.fail("%s:%s: expected a module, found %s; make a module with %s(...)", self.__name, name, shown(self), self.__name)
    end
    local n = select("#", ...)
    if n >= most then check_count(("%s:%s"):format(self.__name or self.who or debug.getmetatable(self).__class or class, name), most - 1, n) end
    return fn(self, ...)
  end
end

-- Wraps the public functions of a table. A wrapped function fails if it receives more arguments than it has
-- parameters. who: name of the table or class; class: true if the functions are methods.
function check.strict(who, t, class)
  for name, fn in pairs(t) do
    local is_public = type(name) == "string" and name:sub(1, 1) ~= "_" and name ~= "init" and name ~= "forward"
    if is_public and type(fn) == "function" and not debug.getinfo(fn, "u").isvararg then
      t[name] = class and limited_method(who, name, fn) or limited(("%s.%s"):format(who, name), fn)
    end
  end
  return t
end

-- ---- reporting unknown names, and checking values ----

-- Fails with a hint about a missing name: Rille's equivalent of another framework's name, or the nearest existing
-- name. Returns without an error if there is no hint, because user code may test whether an optional field exists, as
-- in net.head or net.lm_head.
local function say_missing(who, name, elsewhere, names)
  local near = not elsewhere and rille._nearest(names, name)
  if elsewhere then check.fail("%s has no '%s': %s", who, name, elsewhere) end
  if near then check.fail("%s has no '%s'; the nearest name is '%s'", who, name, near) end
end

-- Returns the set of names of a class and all its base classes.
function check.class_names(class)
  local names = {}
  while type(class) == "table" do
    for name in pairs(class) do names[name] = true end
    local meta = getmetatable(class)
    class = meta and meta.__index
  end
  return names
end

-- Returns the names of the fields that Rille's own functions of the class read. Some objects of the class may lack
-- such a field, so reading the field from an object that lacks it is no error (nil).
local function optional_names(names, class)
  local optional = {}
  for name in pairs(names) do
    local fn = class[name]
    if type(fn) == "function" and check.is_own(fn) then
      for field in pairs(require("rille.step.bytecode").reads(fn).fields) do optional[field] = true end
    end
  end
  return optional
end

local strict = setmetatable({}, {__mode = "k"}) -- classes whose __index is a function

-- Returns the table or function in which Lua looks up a field that an object with this metatable lacks: the
-- metatable's __index. The __index of a strict class raises errors, so for a strict class this function returns the
-- class itself, which is the metatable.
function check.index_of(meta) return strict[meta] and meta or rawget(meta, "__index") end

-- Returns a field of an object; nil if the object lacks the field, even if its class is strict.
function check.field(t, name)
  local found, meta = rawget(t, name), getmetatable(t)
  while found == nil and type(meta) == "table" do
    local class = check.index_of(meta)
    if type(class) == "function" then return class ~= check.foreign_name and class(t, name) or nil end
    if type(class) ~= "table" then return nil end
    found, meta = rawget(class, name), getmetatable(class)
  end
  return found
end

-- Makes one of Rille's classes strict: user code that reads a misspelt field, or a field of another framework, gets
-- an error instead of nil.
function check.strict_class(class)
  local names, optional = check.class_names(class), nil
  optional = optional_names(names, class)
  check.strict(class.__name, class, true)
  strict[class] = true
  rawset(class, "__index", function(self, name)
    local v = class[name]
    if v ~= nil or type(name) ~= "string" or name:sub(1, 1) == "_" or optional[name] then return v end
    local info = debug.getinfo(2, "S")
    if info.what == "C" or info.source:sub(1, #own) == own then return nil end
    local all = {}
    for key in pairs(names) do all[key] = true end
    for key in next, self do all[key] = true end
    say_missing(class.__name, name, rille._elsewhere("module", name) or rille._elsewhere("layer", name), all)
  end)
end

-- Implements __index of nn.Module, the base class of all modules. So reading a field that only another framework has
-- is an error in user classes, too.
function check.foreign_name(_, name)
  local elsewhere = type(name) == "string" and rille._elsewhere("module", name)
  if elsewhere then say_missing("a module", name, elsewhere) end
end

-- Makes the table rille.WHO strict: reading an unknown name is an error instead of nil.
function check.names(who, t)
  check.strict(who, t)
  for name, class in pairs(t) do
    if name ~= "Module" and type(class) == "table" and rawget(class, "__index") == class then check.strict_class(class) end
  end
  local scope = who:match("[%w_]+$")
  local function public_names()
    local public = {}
    for name in pairs(t) do public[#public + 1] = not tostring(name):find("^_") and tostring(name) or nil end
    table.sort(public)
    return table.concat(public, ", ")
  end
  local function refuse_call() check.fail("rille.%s is a table, not a function; it has: %s", who, public_names()) end
  return setmetatable(t, rille._refuse{__call = refuse_call, __index = function(_, name)
    local elsewhere = type(name) == "string" and rille._elsewhere(scope, name)
    if elsewhere then check.fail("rille.%s has no '%s': %s", who, name, elsewhere) end
    local near = type(name) == "string" and rille._nearest(t, name)
    check.fail("rille.%s has no '%s'%s; it has: %s", who, named(name), near and ("; the nearest name is '%s'"):format(near) or "",
      public_names())
  end})
end

-- Checks that value is a positive integer.
function check.count(who, what, value)
  check.that(math.type(value) == "integer" and value > 0, "%s: %s must be a positive integer, found %s", who, what, quoted(value))
  return value
end

-- Checks that value is a whole number of at least `least`; integers and floats are accepted.
function check.whole(who, what, value, least)
  check.that(type(value) == "number" and math.tointeger(value) and value >= least,
    "%s: %s must be an integer of at least %g, found %s",
    who, what, least, quoted(value))
  return value
end

function check.integer(who, what, value)
  check.that(math.type(value) == "integer", "%s: %s must be an integer, found %s", who, what, quoted(value))
  return value
end

-- Checks the sizes of a window (of pooling or a convolution): one positive integer, or {height, width}.
function check.sizes(who, what, value)
  local list = type(value) == "table" and value or {value, value}
  local good = #list == 2 and math.type(list[1]) == "integer" and math.type(list[2]) == "integer" and list[1] > 0 and list[2] > 0
  check.that(good, "%s: %s must be a positive integer or {height, width}, found %s", who, what,
    type(value) == "table" and check.listed(value) or quoted(value))
  return list[1], list[2]
end

function check.number(who, what, value, least)
  check.that(type(value) == "number" and value >= least, "%s: %s must be a number of at least %g, found %s", who, what, least,
    quoted(value))
  return value
end

-- Checks that a list has no keys except 1 to #list. what: name of the list in the message, such as "the list of parameters".
function check.list(who, what, list)
  for key in pairs(list) do
    check.that(math.type(key) == "integer" and key >= 1 and key <= #list, "%s: %s must have no key besides 1, 2, ..., found %s", who, what, shown(key))
  end
end

-- Checks that `list` is a list, without gaps, of parameters or of parameter groups. A model is refused, although it
-- contains parameters.
function check.parameters(who, list)
  check.that(type(list) == "table", "%s: expected a list of parameters, found %s", who, shown(list))
  check.that(type(list.parameters) ~= "function", "%s: expected a list of parameters, found %s; pass its parameters: net:parameters()",
    who, shown(list))
  for i = 1, #list do check.that(list[i] ~= nil, "%s: entry %d of the list of parameters is nil", who, i) end
  check.list(who, "the list of parameters", list)
end

-- Checks the name of a file or folder. A zero byte is refused because the system would cut the name there.
function check.path(who, what, value)
  check.that(type(value) == "string" and value ~= "", "%s: expected %s, found %s", who, what, value == "" and '""' or shown(value))
  local zero = value:find("\0", 1, true)
  check.that(not zero, "%s: the name %q must not have a zero byte", who, zero and value:sub(1, zero - 1) or value)
  return value
end

-- Checks the file name of a picture for rille.plot.
function check.picture(who, value)
  check.path(who, "the name of a file", value)
  local ending = value:match("%.%w+$")
  check.that(not ending or ending:lower() == ".svg", "%s: expected the name of an .svg file, found %s", who, shown(value))
  return value
end

function check.text(who, what, value)
  check.that(type(value) == "string", "%s: %s must be a string, found %s", who, what, shown(value))
  return value
end

-- Checks the name of an operator or class, which begins its messages.
function check.name(who, value)
  check.text(who, "name", value)
  check.that(value:find("%S"), "%s: name must not be empty, found \"%s\"", who, value)
  return value
end

function check.flag(who, what, value)
  check.that(type(value) == "boolean", "%s: %s must be true or false, found %s", who, what, shown(value))
  return value
end

function check.finite(who, what, value)
  check.that(type(value) == "number" and value - value == 0, "%s: %s must be a finite number, found %s", who, what, quoted(value))
  return value
end

-- Checks that a value is a share or a probability, from 0 to 1.
function check.share(who, what, value)
  check.that(type(value) == "number" and value >= 0 and value <= 1, "%s: %s must be a number from 0 to 1, found %s", who, what, quoted(value))
  return value
end

-- Checks that a value is a function. Callable objects are refused.
function check.fn(who, what, value)
  check.that(type(value) == "function", "%s: %s must be a function, found %s", who, what, shown(value))
  return value
end

-- Checks an epsilon: a term that keeps a denominator from being zero.
function check.eps(who, what, value)
  check.that(type(value) == "number" and value >= 0 and value < math.huge,
    "%s: %s must be a finite number of at least 0, found %s", who,
    what, shown(value))
  return value
end

function check.positive(who, what, value)
  check.that(type(value) == "number" and value > 0 and value < math.huge,
    "%s: %s must be a positive, finite number, found %s", who, what,
    shown(value))
  return value
end

return check
