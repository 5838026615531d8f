-- json_pattern.lua - converts a regular expression to a grammar (json_automaton.lua) of the JSON strings that it matches.
--
-- Supported: characters, ".", classes, escapes (\d \w \s \n \t \r \f \v \xHH \uHHHH and their negations), groups,
-- "|", "*", "+", "?", "{n,m}", and ^ and $ at the ends of an alternative. Any other syntax is an error. As JSON Schema
-- prescribes, an alternative without ^ or $ may match a part of the string.

local automaton = require "rille.models.generation.json_automaton"

local choice, many, sequence, set, text = automaton.choice, automaton.many, automaton.sequence, automaton.set, automaton.text

local MOST <const> = 1000 -- maximum count of a quantifier

-- A parser is a table: source (the expression), at (position of the next character), any and wide (expressions of any
-- character, and of any beyond ASCII).

local function fail(self, format, ...)
  error({text = ("at byte %d, "):format(math.min(self.at, #self.source)) .. format:format(...)}, 0)
end

-- ---- sets of characters ----

-- A set: [code] = true for its ASCII characters; wide: true if the set has every character beyond ASCII; more: list of
-- its single characters beyond ASCII.
local function new_set(wide) return {wide = wide, more = {}} end

local function add_range(s, first, last)
  for code = first, last do s[code] = true end
  return s
end

local function negated(self, s)
  if s.more[1] then fail(self, "a negated class must have ASCII characters only") end
  local out = new_set(not s.wide)
  for code = 0, 127 do out[code] = not s[code] or nil end
  return out
end

local function digits() return add_range(new_set(false), 48, 57) end
local function words() return add_range(add_range(add_range(digits(), 65, 90), 97, 122), 95, 95) end
local function blanks() return add_range(add_range(new_set(false), 9, 13), 32, 32) end

local classes = {d = digits, w = words, s = blanks}
local controls = {n = 10, t = 9, r = 13, f = 12, v = 11, ["0"] = 0}
local short = {[8] = "\\b", [9] = "\\t", [10] = "\\n", [12] = "\\f", [13] = "\\r", [34] = '\\"', [92] = "\\\\"}

-- Returns an expression that reads one character of the set, as it is written in a JSON string.
local function one_of(self, s)
  local plain, out = {}, choice()
  for code = 0, 127 do
    if s[code] and (short[code] or code < 32) then out[#out + 1] = text(short[code] or ("\\u%04x"):format(code))
    elseif s[code] then plain[code] = true end
  end
  if next(plain) then
    local bytes = {kind = "set", set = {}}
    for byte = 0, 255 do bytes.set[byte] = plain[byte] or false end
    out[#out + 1] = bytes
  end
  for _, character in ipairs(s.more) do out[#out + 1] = text(character) end
  if s.wide then out[#out + 1] = self.wide end
  if not out[1] then fail(self, "a class must have at least one character") end
  return out
end

-- ---- parsing ----

-- Reads the next text that matches a pattern; nil: it does not match.
local function read(self, pattern)
  local found = self.source:match("^" .. pattern, self.at)
  if found then self.at = self.at + #found end
  return found
end

-- Reads the character after a backslash. Returns a set, or the code of one character.
local function escaped(self)
  local c = read(self, ".") or fail(self, "\\ must be followed by a character")
  if classes[c] then return classes[c]() end
  if classes[c:lower()] then return negated(self, classes[c:lower()]()) end
  if controls[c] then return controls[c] end
  if c == "x" or c == "u" then
    return tonumber(read(self, c == "x" and "%x%x" or "%x%x%x%x") or fail(self, "\\%s must be followed by hexadecimal digits", c), 16)
  end
  if c:find "[%w\x80-\xff]" then fail(self, "\\%s is not supported", c) end
  return c:byte()
end

-- Reads one character or escape. Returns a set, or the code of one character.
local function character(self)
  if read(self, "\\") then return escaped(self) end
  return utf8.codepoint(read(self, "[%z\1-\x7f]") or read(self, "[\xc2-\xf4][\x80-\xbf]+") or fail(self, "expected a character"))
end

local function add(self, s, item)
  if type(item) == "number" then
    if item < 128 then s[item] = true else s.more[#s.more + 1] = utf8.char(item) end
    return
  end
  for code = 0, 127 do s[code] = s[code] or item[code] end
  s.wide = s.wide or item.wide
  table.move(item.more, 1, #item.more, #s.more + 1, s.more)
end

-- Reads a class, after its "[".
local function class(self)
  local s, negative = new_set(false), read(self, "%^")
  while not read(self, "%]") do
    if self.at > #self.source then fail(self, "a class must end with ]") end
    local first = character(self)
    if type(first) == "number" and self.source:find("^%-[^%]]", self.at) then
      read(self, "%-")
      local last = character(self)
      if type(last) ~= "number" or last > 127 or last < first then fail(self, "a range of a class must be of two ASCII characters in order") end
      add_range(s, first, last)
    else
      add(self, s, first)
    end
  end
  return one_of(self, negative and negated(self, s) or s)
end

local alternatives

-- Reads one character, class or group.
local function atom(self)
  if read(self, "%(") then
    if read(self, "%?") and not read(self, ":") then fail(self, "groups that begin with (? are not supported, except (?:") end
    local e = alternatives(self, true)
    if not read(self, "%)") then fail(self, "a group must end with )") end
    return e
  end
  if read(self, "%[") then return class(self) end
  if read(self, "%.") then return one_of(self, negated(self, add_range(add_range(new_set(false), 10, 10), 13, 13))) end
  if self.source:find("^[%^$*+?{}%]]", self.at) then fail(self, "%s is not supported here", self.source:sub(self.at, self.at)) end
  local item, s = character(self), new_set(false)
  add(self, s, item)
  return one_of(self, s)
end

-- Reads a quantifier. Returns the minimum and maximum numbers of repetitions; nil as maximum: no limit.
local function quantifier(self)
  if read(self, "%*") then return 0 end
  if read(self, "%+") then return 1 end
  if read(self, "%?") then return 0, 1 end
  local least, comma, most = self.source:match("^{(%d+)(,?)(%d*)}", self.at)
  if not least then return 1, 1 end
  read(self, "{[%d,]+}")
  least, most = math.tointeger(least), most ~= "" and math.tointeger(most) or comma == "" and math.tointeger(least) or nil
  if least > MOST or (most or 0) > MOST or most and most < least then
    fail(self, "the counts of a quantifier must be from 0 to %d, in order", MOST)
  end
  return least, most
end

-- Reads an alternative. inner: true within a group.
local function alternative(self, inner)
  local out, any = sequence(), many(self.any)
  if not inner and not read(self, "%^") then out[1] = any end
  while self.at <= #self.source and not self.source:find("^[|)]", self.at) do
    if not inner and (self.source:find("^%$$", self.at) or self.source:find("^%$|", self.at)) then
      read(self, "%$")
      return out
    end
    local e = atom(self)
    local least, most = quantifier(self)
    read(self, "%?") -- a lazy quantifier matches the same texts
    out[#out + 1] = automaton.repeated(function() return e end, least, most)
  end
  if not inner then out[#out + 1] = any end
  return out
end

function alternatives(self, inner)
  local out = choice()
  repeat out[#out + 1] = alternative(self, inner) until not read(self, "|")
  return out
end

-- Returns an expression that reads the text between the quotes of a JSON string that matches the regular expression. If
-- the expression is not supported, raises a table {text =}. any, wide: expressions of any character, and of any beyond
-- ASCII.
return function(source, any, wide)
  local self = {source = source, at = 1, any = any, wide = wide}
  local e = alternatives(self, false)
  if self.at <= #source then fail(self, "%s is not supported here", source:sub(self.at, self.at)) end
  return e
end
