-- state_text.lua - converts training state to text and back exactly: integers stay integers, floats keep their bits.
--
-- The text is JSON; rille.json reads it. A table is a list (keys 1 .. n) or has string keys. JSON has no NaN and no
-- infinity: NaN is written as null, an infinity as a string that begins with a zero byte. A string that begins with a
-- zero byte is written with a second zero byte.

local check = require "rille.base.check"
local json = require "rille.json"

local state_text = {}

local DEEP <const> = 1000
local INFINITE <const> = {["\0inf"] = math.huge, ["\0-inf"] = -math.huge}

-- ---- converting values to text ----

local escapes = {['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t"}

local function text_of(s)
  return '"' .. s:gsub('[%c"\\\127]', function(c) return escapes[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
end

local function value_of(s) return text_of(s:sub(1, 1) == "\0" and "\0" .. s or s) end

local function number_of(v)
  if v ~= v then return "null" end
  if math.type(v) == "integer" then return ("%d"):format(v) end
  if v == math.huge or v == -math.huge then return text_of("\0" .. v) end
  local text = ("%.17g"):format(v)
  return text:find("[.e]") and text or text .. ".0"
end

local encode

local function table_of(v, path, depth)
  if depth > DEEP then error() end
  local parts, keys = {}, {}
  for i, e in ipairs(v) do parts[i] = encode(e, ("%s[%d]"):format(path, i), depth + 1) end
  for key in pairs(v) do
    if type(key) == "string" then
      if not utf8.len(key) or key:find("\0") then error({("%s has the key %s, which JSON does not allow"):format(path, check.shown(key))}) end
      keys[#keys + 1] = key
    elseif math.type(key) ~= "integer" or key < 1 or key > #parts then
      error({("%s has the key %s; a table must be a list without gaps, or have strings as keys"):format(path, tostring(key))})
    end
  end
  if #keys == 0 then return "[" .. table.concat(parts, ",") .. "]" end
  if #parts > 0 then error({("%s must be a list or a table of names, found positions and names as keys"):format(path)}) end
  table.sort(keys)
  for i, key in ipairs(keys) do parts[i] = text_of(key) .. ":" .. encode(v[key], path .. "." .. key, depth + 1) end
  return "{" .. table.concat(parts, ",") .. "}"
end

local kinds = {number = number_of, string = value_of, boolean = tostring, table = table_of}
function encode(v, path, depth)
  local kind = kinds[type(v)]
  if not kind then error({("%s is %s; only numbers, strings, booleans and tables of them can be written"):format(path, check.shown(v))}) end
  if type(v) == "string" and not utf8.len(v) then error({path .. " is a string that is not UTF-8"}) end
  return kind(v, path, depth)
end

-- Converts v to text, and returns the text; nil and the reason if v cannot be written. name: the name of v in the
-- message.
function state_text.encode(v, name)
  local good, text = check.try(encode, v, name, 1)
  if good then return text end
  return nil, type(text) == "table" and text[1] or ("%s is nested too deep, or contains itself"):format(name)
end

-- ---- converting text to values ----

-- Restores a decoded value: null becomes NaN, and lists lose the metatable of json.lua.
local function plain(v)
  if v == json.null then return 0 / 0 end
  if type(v) == "string" and v:sub(1, 1) == "\0" then return INFINITE[v] or v:sub(2) end
  if type(v) ~= "table" then return v end
  setmetatable(v, nil)
  for key, e in pairs(v) do v[key] = plain(e) end
  return v
end

-- Converts text back to a value, and returns the value; nil if the text is not JSON.
function state_text.decode(s)
  local good, v = check.try(json.decode, s)
  if good then return plain(v) end
end

return state_text
