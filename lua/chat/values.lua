-- values.lua - values of chat templates. They behave as in Python, and have these types: strings, integers, floats,
-- booleans, none, lists, ordered dictionaries, undefined values, namespaces, and functions.
--
-- Lists and tuples are tables of values with the metatables values.List and values.Tuple. A dictionary is {keys = {...}, of = {[key] = value}} with the
-- metatable values.Dict. A function of a template is a Lua function f(args, named, line).

local rille = require "rille"
local lexer = require "rille.chat.lexer"
local json = require "rille.json"

local values = {List = {}, Tuple = {}, Dict = {}, Undefined = {}, Namespace = {}}
local List, Tuple, Dict, Undefined, Namespace = values.List, values.Tuple, values.Dict, values.Undefined, values.Namespace

values.none = setmetatable({}, {})
local none = values.none

values.LONGEST = 1 << 26 -- maximum bytes of a string, and maximum elements of a list

function values.list(t) return setmetatable(t, List) end
function values.tuple(t) return setmetatable(t, Tuple) end
function values.dict() return setmetatable({keys = {}, of = {}}, Dict) end
function values.undefined(name) return setmetatable({name = name}, Undefined) end

function values.put(d, key, value)
  if d.of[key] == nil then d.keys[#d.keys + 1] = key end
  d.of[key] = value
end

-- Returns the name of a value's type, as Python names it.
function values.kind(v)
  local t = type(v)
  if t == "string" then return "str" end
  if t == "number" then return math.type(v) == "integer" and "int" or "float" end
  if t == "boolean" then return "bool" end
  if t == "function" then return "function" end
  local meta = getmetatable(v)
  if meta == List or meta == Tuple then return "list" end
  if meta == Dict then return "dict" end
  if meta == Undefined then return "undefined" end
  return meta == Namespace and "namespace" or "none"
end
local kind = values.kind

-- Raises an error if the value is undefined.
function values.check(v, line)
  if getmetatable(v) == Undefined and type(v) == "table" then lexer.fail(line, "%s is undefined", v.name) end
  return v
end

function values.truth(v)
  local k = kind(v)
  if k == "bool" then return v end
  if k == "none" or k == "undefined" then return false end
  if k == "int" or k == "float" then return v ~= 0 end
  if k == "str" or k == "list" then return #v > 0 end
  if k == "dict" then return #v.keys > 0 end
  return true
end

-- ---- converting the caller's values to template values ----

-- Names that occur in messages and tools, in their usual order. All other names follow in alphabetical order.
local usual = {}
for i, name in ipairs{"role", "type", "function", "name", "description", "parameters", "properties", "required", "return", "content",
  "reasoning_content", "tool_calls", "id", "arguments", "title", "text"} do usual[name] = i end

local function names_of(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names, function(a, b)
    local x, y = usual[a] or 99, usual[b] or 99
    if x ~= y then return x < y end
    return tostring(a) < tostring(b)
  end)
  return names
end

-- Converts a Lua value to a template value. order[t]: the names in table t, in the order of the JSON text; nil: t was
-- not read from JSON text. A table with an entry 1 becomes a list, and so does an empty table that was not read from
-- a JSON object. A value that is already a list or dictionary of templates is returned unchanged.
function values.from_lua(v, order, depth)
  depth = depth or 0
  local t = type(v)
  if t == "string" or t == "number" or t == "boolean" then return v end
  if v == nil or v == json.null then return none end
  if t ~= "table" or depth > 100 then
    error({text = t == "table" and "a value is nested more than 100 deep, or contains itself" or ("a value must not be a %s"):format(t)}, 0)
  end
  if getmetatable(v) == List or getmetatable(v) == Dict then return v end
  local names = order and order[v]
  if not names and (v[1] ~= nil or next(v) == nil) then
    local list = values.list{}
    for i = 1, #v do list[i] = values.from_lua(v[i], order, depth + 1) end
    return list
  end
  local d = values.dict()
  for _, name in ipairs(names or names_of(v)) do values.put(d, name, values.from_lua(v[name], order, depth + 1)) end
  return d
end

-- Converts JSON text; objects keep the order of their names.
function values.from_json(text, who)
  local order = {}
  return values.from_lua(json.decode(text, who, order), order)
end

-- ---- converting values to text ----

-- Returns the text of a float in Python's form.
local function float_text(v)
  if v ~= v then return "nan" end
  if v == math.huge or v == -math.huge then return v > 0 and "inf" or "-inf" end
  if v == math.floor(v) and math.abs(v) < 1e16 then return ("%.1f"):format(v) end
  for digits = 15, 17 do
    local text = ("%%.%dg"):format(digits):format(v)
    if tonumber(text) == v then return text end
  end
end

local function quoted_text(s)
  local quote = s:find("'", 1, true) and not s:find('"', 1, true) and '"' or "'"
  return quote .. s:gsub("[%c\\" .. quote .. "]", function(c)
    local short = ({["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\\"] = "\\\\"})[c]
    return short or (c == quote and "\\" .. c) or ("\\x%02x"):format(c:byte())
  end) .. quote
end

-- Maximum number of values that a template may write or compare. A nested list can contain one list many times, so
-- without this limit a short template could produce an endless text.
local MOST <const> = 500000
local counted = 0
function values.begin() counted = 0 end
local function count(line, n)
  counted = counted + (n or 1)
  if counted > MOST then lexer.fail(line, "the template writes or compares more than %d values", MOST) end
end

-- Returns the text of a value. inside: the value is an element of a list, so strings are quoted (Python's repr).
function values.text(v, inside)
  local k = kind(v)
  count()
  if k == "str" then return inside and quoted_text(v) or v end
  if k == "int" then return tostring(v) end
  if k == "float" then return float_text(v) end
  if k == "bool" then return v and "True" or "False" end
  if k == "none" then return "None" end
  if k == "undefined" then return inside and "Undefined" or "" end
  local parts = {}
  if k == "list" then
    for i, e in ipairs(v) do parts[i] = values.text(e, true) end
    if getmetatable(v) == List then return "[" .. table.concat(parts, ", ") .. "]" end
    return "(" .. table.concat(parts, ", ") .. (#parts == 1 and ",)" or ")")
  end
  if k ~= "dict" then return "<" .. k .. ">" end
  for i, key in ipairs(v.keys) do parts[i] = values.text(key, true) .. ": " .. values.text(v.of[key], true) end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function json_string(s)
  return '"' .. s:gsub('[%z\1-\31"\\]', function(c)
    local short = ({["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\b"] = "\\b", ["\f"] = "\\f", ['"'] = '\\"', ["\\"] = "\\\\"})[c]
    return short or ("\\u%04x"):format(c:byte())
  end) .. '"'
end

-- Returns a value as JSON in the form of Python's json.dumps. o: indent (text of one level of indentation, or nil),
-- comma and colon (the separators), sort (true: names of objects are sorted).
function values.json(v, o, line, level)
  level = level or 1
  local k = kind(v)
  count(line)
  if k == "str" then return json_string(v) end
  if k == "int" then return tostring(v) end
  if k == "float" then return (float_text(v):gsub("^nan$", "NaN"):gsub("inf$", "Infinity")) end
  if k == "bool" then return v and "true" or "false" end
  if k == "none" then return "null" end
  if k ~= "list" and k ~= "dict" then lexer.fail(line, "tojson: a value of kind %s cannot be JSON", k) end
  local parts = {}
  if k == "list" then
    for i, e in ipairs(v) do parts[i] = values.json(e, o, line, level + 1) end
  else
    local keys = v.keys
    if o.sort then
      keys = table.move(keys, 1, #keys, 1, {})
      table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    end
    for i, key in ipairs(keys) do
      local name = type(key) == "string" and key or values.json(key, o, line)
      parts[i] = json_string(name) .. o.colon .. values.json(v.of[key], o, line, level + 1)
    end
  end
  local open, close = k == "list" and "[" or "{", k == "list" and "]" or "}"
  if #parts == 0 or not o.indent then return open .. table.concat(parts, o.comma) .. close end
  local inner = "\n" .. o.indent:rep(level)
  return open .. inner .. table.concat(parts, o.comma .. inner) .. "\n" .. o.indent:rep(level - 1) .. close
end

-- ---- comparing values ----

function values.equal(a, b)
  local x, y = kind(a), kind(b)
  count()
  if x == "bool" then a, x = a and 1 or 0, "int" end
  if y == "bool" then b, y = b and 1 or 0, "int" end
  if x ~= y then return type(a) == "number" and a == b end
  if x == "undefined" then return true end
  if x == "list" then
    if #a ~= #b or getmetatable(a) ~= getmetatable(b) then return false end
    for i = 1, #a do
      if not values.equal(a[i], b[i]) then return false end
    end
    return true
  end
  if x ~= "dict" then return a == b end
  if #a.keys ~= #b.keys then return false end
  for key, value in pairs(a.of) do
    if b.of[key] == nil or not values.equal(value, b.of[key]) then return false end
  end
  return true
end

function values.less(a, b, line)
  local x, y = kind(a), kind(b)
  count(line)
  if x == "bool" then a, x = a and 1 or 0, "int" end
  if y == "bool" then b, y = b and 1 or 0, "int" end
  if type(a) == "number" and type(b) == "number" then return a < b end
  if x == "str" and y == "str" then return a < b end
  if x ~= "list" or y ~= "list" then lexer.fail(line, "a value of kind %s cannot be compared with one of kind %s", x, y) end
  for i = 1, math.min(#a, #b) do
    if not values.equal(a[i], b[i]) then return values.less(a[i], b[i], line) end
  end
  return #a < #b
end

function values.contains(of, v, line)
  local k = kind(of)
  if k == "undefined" then return false end
  if k == "str" then
    if type(v) ~= "string" then lexer.fail(line, "'in' expects a string on its left, found a value of kind %s", kind(v)) end
    return of:find(v, 1, true) ~= nil
  end
  if k == "dict" then return of.of[v] ~= nil end
  if k ~= "list" then lexer.fail(line, "'in' expects a string, list or dictionary, found a value of kind %s", k) end
  for _, e in ipairs(of) do
    if values.equal(e, v) then return true end
  end
  return false
end

-- ---- elements and slices of sequences ----

-- Returns the characters of a string as a list. Each byte that is not UTF-8 counts as a character.
function values.characters(s)
  local list, at = {}, 1
  count(nil, #s // 64)
  while at <= #s do
    local last = at
    if s:byte(at) >= 0x80 and utf8.len(s, at, at) then last = (utf8.offset(s, 2, at) or #s + 1) - 1 end
    list[#list + 1] = s:sub(at, last)
    at = last + 1
  end
  return list
end

function values.length(v, line)
  local k = kind(values.check(v, line))
  if k == "str" then return v:find("[\x80-\xff]") and #values.characters(v) or #v end
  if k == "list" then return #v end
  if k == "dict" then return #v.keys end
  lexer.fail(line, "a value of kind %s has no length", k)
end

-- Returns the elements of a value that can be iterated, as a Lua list.
function values.elements(v, line)
  local k = kind(v)
  if k == "list" then return v end
  if k == "dict" then return v.keys end
  if k == "str" then return values.characters(v) end
  if k == "undefined" then return {} end
  lexer.fail(line, "a value of kind %s cannot be iterated", k)
end

local function bound(i, n, line, otherwise)
  if i == nil or i == none then return otherwise end
  if math.type(i) ~= "integer" then lexer.fail(line, "a slice must have integers, found a value of kind %s", kind(i)) end
  return i < 0 and i + n or i
end

-- Returns v[from:to:step], as in Python.
function values.slice(v, from, to, step, line)
  local k = kind(values.check(v, line))
  if k ~= "str" and k ~= "list" then return values.undefined("a slice of a value of kind " .. k) end
  local list = k == "str" and values.characters(v) or v
  local n, out = #list, {}
  step = bound(step, 0, line, 1)
  if step == 0 then lexer.fail(line, "the step of a slice must not be 0") end
  local first, last
  if step > 0 then
    first, last = math.max(bound(from, n, line, 0), 0), math.min(bound(to, n, line, n), n) - 1
  else
    first, last = math.min(bound(from, n, line, n - 1), n - 1), math.max(bound(to, n, line, -1), -1) + 1
  end
  for i = first, last, step do out[#out + 1] = list[i + 1] end
  return k == "str" and table.concat(out) or setmetatable(out, getmetatable(v))
end

return values
