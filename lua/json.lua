-- json.lua - JSON as Lua values: objects and arrays are tables, null is json.null, 3 stays an integer and 3.0 none (RFC 8259).
--
-- An empty array cannot be told from an empty object; both are written {}, unless json.array made the table.

local rille = require "rille"
local check = require "rille.check"

local json = {null = setmetatable({}, {__tostring = function() return "null" end})}

local DEEP <const> = 200
local MOST <const> = 1 << 26 -- bytes of a file

local array_mark = {}
function json.array(t) return setmetatable(t, array_mark) end

-- ---- reading ----

local escapes = {b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/"}

local function trouble(who, text, at, what)
  local _, lines = text:sub(1, at):gsub("\n", "")
  check.fail("%s: line %d is not JSON: %s", who, lines + 1, what)
end

local function skip(text, at) return text:find("[^ \t\r\n]", at) or #text + 1 end

-- The code point of \uXXXX at `at`, and where it ends; a pair of surrogates is one.
local function code_point(who, text, at)
  local hex = text:match("^\\u(%x%x%x%x)", at)
  if not hex then trouble(who, text, at, "a \\u without four digits") end
  local high = tonumber(hex, 16)
  if high < 0xd800 or high > 0xdfff then return high, at + 6 end
  local low = tonumber(text:match("^\\u(%x%x%x%x)", at + 6) or "0", 16)
  if high > 0xdbff or low < 0xdc00 or low > 0xdfff then trouble(who, text, at, "half of a surrogate pair") end
  return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00), at + 12
end

local function read_string(who, text, at)
  local parts, i = {}, at + 1
  while true do
    local stop = text:find('["\\%c]', i)
    if not stop then trouble(who, text, at, "a string without an end") end
    parts[#parts + 1] = text:sub(i, stop - 1)
    local c, escaped = text:sub(stop, stop), text:sub(stop + 1, stop + 1)
    if c == '"' then return table.concat(parts), stop + 1 end
    if c ~= "\\" then trouble(who, text, stop, "a control character in a string") end
    if escaped == "u" then
      local code
      code, i = code_point(who, text, stop)
      parts[#parts + 1] = utf8.char(code)
    else
      if not escapes[escaped] then trouble(who, text, stop, "an unknown escape") end
      parts[#parts + 1], i = escapes[escaped], stop + 2
    end
  end
end

local read_value

-- Members up to `close`; each(at) reads one and gives where it ends.
local function read_members(who, text, at, close, each)
  at = skip(text, at + 1)
  if text:sub(at, at) == close then return at + 1 end
  while true do
    at = skip(text, each(at))
    local c = text:sub(at, at)
    if c == close then return at + 1 end
    if c ~= "," then trouble(who, text, at, ("'%s' or ',' is wanted"):format(close)) end
    at = skip(text, at + 1)
  end
end

local function read_object(who, text, at, depth)
  local t = {}
  return t, read_members(who, text, at, "}", function(i)
    if text:sub(i, i) ~= '"' then trouble(who, text, i, "a name in quotes is wanted") end
    local name, colon = read_string(who, text, i)
    colon = skip(text, colon)
    if text:sub(colon, colon) ~= ":" then trouble(who, text, colon, "':' is wanted") end
    if t[name] ~= nil then trouble(who, text, i, ("the name '%s' is there twice"):format(name)) end
    local last
    t[name], last = read_value(who, text, skip(text, colon + 1), depth + 1)
    return last
  end)
end

local function read_array(who, text, at, depth)
  local t = json.array{}
  return t, read_members(who, text, at, "]", function(i)
    local value, last = read_value(who, text, i, depth + 1)
    t[#t + 1] = value
    return last
  end)
end

local words = {["true"] = true, ["false"] = false, null = json.null}

function read_value(who, text, at, depth)
  if depth > DEEP then trouble(who, text, at, ("nested more than %d deep"):format(DEEP)) end
  local c = text:sub(at, at)
  if c == "{" then return read_object(who, text, at, depth) end
  if c == "[" then return read_array(who, text, at, depth) end
  if c == '"' then return read_string(who, text, at) end
  local word = text:match("^%l+", at)
  if word and words[word] ~= nil then return words[word], at + #word end
  local digits = text:match("^-?%d+%.?%d*[eE]?[+-]?%d*", at)
  local value = digits and not digits:find("^-?0%d") and not digits:find("%.$") and not digits:find("%.[eE]") and tonumber(digits)
  if not value then trouble(who, text, at, "a value is wanted") end
  return value, at + #digits
end

-- who stands in errors: the file's name.
function json.decode(text, who)
  who = who or "json"
  check.that(type(text) == "string" and type(who) == "string", "json.decode: a text is wanted, not %s",
    check.shown(type(text) == "string" and who or text))
  local value, at = read_value(who, text, skip(text, 1), 0)
  at = skip(text, at)
  if at <= #text then trouble(who, text, at, "something follows the value") end
  return value
end

function json.load(path)
  return json.decode(rille._read(check.path("json.load", "a file's name", path), MOST), path)
end

-- ---- writing ----

local function quoted(s)
  return '"' .. s:gsub('[%c"\\]', function(c)
    return c == '"' and '\\"' or c == "\\" and "\\\\" or c == "\n" and "\\n" or ("\\u%04x"):format(c:byte())
  end) .. '"'
end

local function number_text(v)
  check.that(v == v and v ~= math.huge and v ~= -math.huge, "json: %s is no number in JSON", tostring(v))
  if math.type(v) == "integer" then return tostring(v) end
  local short = ("%.15g"):format(v)
  local text = tonumber(short) == v and short or ("%.17g"):format(v)
  return text:find("[.e]") and text or text .. ".0"
end

-- Objects by sorted names, two spaces a level.
local function encode(v, indent, depth)
  check.that(depth <= DEEP, "json: a value is deeper than %d, or holds itself", DEEP)
  if v == json.null then return "null" end
  if type(v) == "string" then return quoted(v) end
  if type(v) == "number" then return number_text(v) end
  if type(v) == "boolean" then return tostring(v) end
  check.that(type(v) == "table", "json: %s is no value in JSON", check.shown(v))
  local within, parts = indent .. "  ", {}
  local list = getmetatable(v) == array_mark or #v > 0
  if list then
    for i, e in ipairs(v) do parts[i] = within .. encode(e, within, depth + 1) end
  else
    for _, name in ipairs(check.sorted_keys(v)) do
      check.that(v[name] ~= nil, "json: names of an object are strings, not %s", name)
      parts[#parts + 1] = ("%s%s: %s"):format(within, quoted(name), encode(v[name], within, depth + 1))
    end
  end
  if #parts == 0 then return list and "[]" or "{}" end
  return ("%s\n%s\n%s%s"):format(list and "[" or "{", table.concat(parts, ",\n"), indent, list and "]" or "}")
end

function json.encode(v) return encode(v, "", 0) end

return json
