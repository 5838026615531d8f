-- json.lua - JSON as Lua values (RFC 8259): objects and arrays are tables, null is json.null. 3 is an integer, 3.0 a
-- float. jansson parses the text. A float is written with the fewest of 15 to 17 digits that read back as the same
-- number.
--
-- An empty array and an empty object are both read as an empty table. An empty table is written {}, unless json.array
-- made the table.

local rille = require "rille"
local check = require "rille.base.check"

local json = {null = setmetatable({}, {__tostring = function() return "null" end})}

local DEEP <const> = 2048 -- maximum nesting depth, which is jansson's limit
local MOST <const> = 1 << 26 -- maximum bytes of a file

local array_mark = {}
function json.array(t) return setmetatable(t, array_mark) end

-- ---- parsing JSON text ----

-- Parses text. who: prefix of error messages, usually the file's name. order: optional table; order[t] becomes the list
-- of the names of object t as they occur in the text.
function json.decode(text, who, order)
  who = who or "json"
  check.that(type(text) == "string" and type(who) == "string", "json.decode: expected a string, found %s",
    check.shown(type(text) == "string" and who or text))
  return rille._json(text, who, json.null, array_mark, order)
end

-- Parses a file. who: text before the file's name in error messages; nil: none.
function json.load(path, who)
  check.that(who == nil or type(who) == "string", "json.load: one argument too many: %s; expected json.load(path)", check.shown(who))
  local text = rille._read(check.path(who or "json.load", "the name of a file", path), MOST, who)
  return json.decode(text, who and ("%s: %s"):format(who, path) or path)
end

-- ---- encoding values as JSON ----

local function quoted(s)
  return '"' .. s:gsub('[%c"\\]', function(c)
    return c == '"' and '\\"' or c == "\\" and "\\\\" or c == "\n" and "\\n" or ("\\u%04x"):format(c:byte())
  end) .. '"'
end

local function number_text(v)
  check.that(v == v and v ~= math.huge and v ~= -math.huge, "json: %s cannot be written as JSON", tostring(v))
  if math.type(v) == "integer" then return tostring(v) end
  local text
  for digits = 15, 17 do
    text = ("%%.%dg"):format(digits):format(v)
    if tonumber(text) == v then break end
  end
  return text:find("[.e]") and text or text .. ".0"
end

-- Encodes a value as JSON: keys of objects are sorted, and each level is indented by two spaces.
local function encode(v, indent, depth)
  check.that(depth <= DEEP, "json: a value is nested more than %d deep, or contains itself", DEEP)
  if v == json.null then return "null" end
  if type(v) == "string" then return quoted(v) end
  if type(v) == "number" then return number_text(v) end
  if type(v) == "boolean" then return tostring(v) end
  check.that(type(v) == "table", "json: %s cannot be written as JSON", check.shown(v))
  local within, parts = indent .. "  ", {}
  local list = getmetatable(v) == array_mark or #v > 0
  if list then
    for i, e in ipairs(v) do parts[i] = within .. encode(e, within, depth + 1) end
  else
    for _, name in ipairs(check.sorted_keys(v)) do
      check.that(v[name] ~= nil, "json: keys of an object must be strings, found %s", name)
      parts[#parts + 1] = ("%s%s: %s"):format(within, quoted(name), encode(v[name], within, depth + 1))
    end
  end
  if #parts == 0 then return list and "[]" or "{}" end
  return ("%s\n%s\n%s%s"):format(list and "[" or "{", table.concat(parts, ",\n"), indent, list and "]" or "}")
end

function json.encode(v) return encode(v, "", 0) end

return json
