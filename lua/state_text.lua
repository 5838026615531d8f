-- state_text.lua - the state of a training as text and back, exactly: integers stay integers, floats are the same bits.
--
-- The text is JSON, which other programs read too (rille.json is for the JSON of others, which has null and no infinities).
-- A table is a list (keys 1 .. n) or has texts as keys. What JSON lacks: an infinity is 1e999, NaN is null.

local state_text = {}

-- ---- writing ----

local escapes = {['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t"}

local function text_of(s)
  return '"' .. s:gsub('[%c"\\\127]', function(c) return escapes[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
end

local function number_of(v)
  if v ~= v then return "null" end
  if math.type(v) == "integer" then return ("%d"):format(v) end
  if v == math.huge then return "1e999" end
  if v == -math.huge then return "-1e999" end
  local text = ("%.17g"):format(v)
  return text:find("[.e]") and text or text .. ".0"
end

local encode

local function table_of(v, path)
  local parts, keys = {}, {}
  for i, e in ipairs(v) do parts[i] = encode(e, ("%s[%d]"):format(path, i)) end
  for key in pairs(v) do
    if type(key) == "string" then keys[#keys + 1] = key
    elseif math.type(key) ~= "integer" or key < 1 or key > #parts then
      error({("%s has the key %s: a table is a list without gaps, or has texts as keys"):format(path, tostring(key))})
    end
  end
  if #keys == 0 then return "[" .. table.concat(parts, ",") .. "]" end
  if #parts > 0 then error({("%s is a list and has names as well"):format(path)}) end
  table.sort(keys)
  for i, key in ipairs(keys) do parts[i] = text_of(key) .. ":" .. encode(v[key], path .. "." .. key) end
  return "{" .. table.concat(parts, ",") .. "}"
end

local kinds = {number = number_of, string = text_of, boolean = tostring, table = table_of}
function encode(v, path)
  local kind = kinds[type(v)]
  if not kind then error({("%s is a %s: numbers, texts, booleans and tables of them can be written"):format(path, type(v))}) end
  if type(v) == "string" and not utf8.len(v) then error({path .. " is a text that is not UTF-8"}) end
  return kind(v, path)
end

-- The text; or nil and what cannot be written. name: what v is called in that message.
function state_text.encode(v, name)
  local good, text = pcall(encode, v, name)
  if good then return text end
  return nil, type(text) == "table" and text[1] or ("%s is nested too deep"):format(name)
end

-- ---- reading ----

local unescaped = {b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ["/"] = "/", ["\\"] = "\\", ['"'] = '"'}

local function read_text(s, at)
  local parts = {}
  while true do
    local from, to, plain, stop = s:find('^([^"\\%c]*)(["\\])', at)
    if not from then return nil end
    parts[#parts + 1], at = plain, to + 1
    if stop == '"' then return table.concat(parts), at end
    local hex = s:match("^u(%x%x%x%x)", at)
    parts[#parts + 1] = hex and utf8.char(tonumber(hex, 16)) or unescaped[s:sub(at, at)]
    if not parts[#parts] then return nil end
    at = at + (hex and 5 or 1)
  end
end

local read

-- Entries up to the closing mark; one(at) reads an entry and gives the position behind it.
local function read_entries(s, at, close, one)
  at = s:match("^%s*()", at)
  if s:sub(at, at) == close then return at + 1 end
  while true do
    at = one(at)
    at = at and s:match("^%s*()", at)
    if not at then return nil end
    local mark = s:sub(at, at)
    if mark == close then return at + 1 end
    if mark ~= "," then return nil end
    at = s:match("^%s*()", at + 1)
  end
end

local function read_list(s, at, depth)
  local list, n = {}, 0
  local to = read_entries(s, at, "]", function(from)
    local v, behind = read(s, from, depth)
    n = n + 1
    list[n] = v
    return behind
  end)
  return to and list, to
end

local function read_object(s, at, depth)
  local object = {}
  local to = read_entries(s, at, "}", function(from)
    if s:sub(from, from) ~= '"' then return nil end
    local key, behind = read_text(s, from + 1)
    local colon = key and s:match("^%s*:()", behind)
    if not colon then return nil end
    object[key], behind = read(s, colon, depth)
    return behind
  end)
  return to and object, to
end

local words = {["true"] = true, ["false"] = false, ["null"] = 0 / 0}

-- The value at a position and the position behind it; nothing where there is none.
function read(s, at, depth)
  at = s:match("^%s*()", at)
  local first = s:sub(at, at)
  if depth > 100 then return nil end
  if first == '"' then return read_text(s, at + 1) end
  if first == "[" then return read_list(s, at + 1, depth + 1) end
  if first == "{" then return read_object(s, at + 1, depth + 1) end
  local word = s:match("^%l+", at)
  if word then
    if words[word] == nil then return nil end
    return words[word], at + #word
  end
  local number = s:match("^%-?%d+%.?%d*[eE]?[+-]?%d*", at)
  local value = number and tonumber(number)
  if not value then return nil end
  return value, at + #number
end

-- The value, or nil when the text is no JSON.
function state_text.decode(s)
  local v, to = read(s, 1, 0)
  if not to or s:find("%S", to) then return nil end
  return v
end

return state_text
