-- json_schema.lua - converts a JSON schema to a grammar (json_automaton.lua), whose texts all satisfy the schema.
--
-- Not every text that satisfies the schema is in the grammar: the properties of an object have the order of the schema,
-- and other properties occur only if the schema names none. A keyword that is not supported is an error.

local automaton = require "rille.models.generation.json_automaton"
local check = require "rille.base.check"
local numbers = require "rille.models.generation.json_numbers"
local pattern = require "rille.models.generation.json_pattern"
local values = require "rille.chat.values"

local choice, lazy, many, optional, repeated = automaton.choice, automaton.lazy, automaton.many, automaton.optional, automaton.repeated
local sequence, set, text = automaton.sequence, automaton.set, automaton.text

local SPACES <const> = 32 -- maximum number of white spaces in a row, so that a model cannot write them without end
local MOST <const> = 10000 -- maximum number of schemas, names and values in a schema
local MOST_BOUND <const> = 1000000000000000000 -- maximum absolute value of a bound of numbers
local COMPACT <const> = {comma = ",", colon = ":"}

local schema = {}

-- ---- grammar of JSON without a schema (RFC 8259) ----

local space, spaces = set "[ \t\r\n]", sequence()
for _ = 1, SPACES do spaces = optional(sequence(space, spaces)) end

local digit, hex = set "%d", set "%x"
local digits = sequence(digit, many(digit))
local integer = sequence(optional(text "-"), choice(text "0", sequence(set "[1-9]", many(digit))))
local number = sequence(integer, optional(sequence(text ".", digits)), optional(sequence(set "[eE]", optional(set "[+-]"), digits)))

-- Characters of two to four bytes (UTF-8), and escapes. A surrogate occurs only in a pair.
local tail, d = set "[\x80-\xbf]", set "[dD]"
local wide = choice(sequence(set "[\xc2-\xdf]", tail), sequence(text "\xe0", set "[\xa0-\xbf]", tail), sequence(set "[\xe1-\xec\xee\xef]", tail, tail),
  sequence(text "\xed", set "[\x80-\x9f]", tail), sequence(text "\xf0", set "[\x90-\xbf]", tail, tail),
  sequence(set "[\xf1-\xf3]", tail, tail, tail), sequence(text "\xf4", set "[\x80-\x8f]", tail, tail))
local pair = sequence(d, set "[89abAB]", hex, hex, text "\\u", d, set "[c-fC-F]", hex, hex)
local code = choice(sequence(set "[%da-cA-CefEF]", hex, hex, hex), sequence(d, set "[0-7]", hex, hex), pair)
local escape = sequence(text "\\", choice(set '["\\/bfnrt]', sequence(text "u", code)))
local character = choice(set '[ !#-Z%[%]^-\x7f]', wide, escape)
local str = sequence(text '"', many(character), text '"')

local function comma(e) return sequence(spaces, text ",", spaces, e) end
local function enclosed(open, e, close) return sequence(text(open), spaces, e, spaces, text(close)) end

-- Returns an expression that matches an object with any names, whose values match e.
local function map_of(e)
  local member = sequence(str, spaces, text ":", spaces, e)
  return enclosed("{", optional(sequence(member, many(comma(member)))), "}")
end

-- Returns an expression that matches an array with at least `least` and at most `most` elements, all of which match
-- e. most: nil for no limit.
local function array_of(e, least, most)
  return enclosed("[", repeated(function(n) return n == 0 and e or comma(e) end, least, most), "]")
end

local any = choice(str, number, text "true", text "false", text "null")
local any_object = map_of(any)
any[#any + 1] = any_object
any[#any + 1] = array_of(any, 0)

-- ---- compiling a schema to a grammar ----

-- Stops with an error about the part of the schema at `path`.
local function that(good, path, format, ...) check.that(good, "generate: response_format: %s: " .. format, path, ...) end

local function json_text(v)
  values.begin()
  return values.json(v, COMPACT)
end

local function shown(v)
  local s = json_text(v)
  return #s <= 60 and s or s:sub(1, 57) .. "..."
end

local function is_schema(v) return values.kind(v) == "dict" or values.kind(v) == "list" and #v == 0 end

local function count(self, path)
  self.total.count = self.total.count + 1
  that(self.total.count <= MOST, path, "the schema must have at most %d schemas, names and values", MOST)
end

-- Keyword -> true: it restricts values; false: it only describes them.
local keywords = {type = true, properties = true, required = true, additionalProperties = true, items = true, enum = true, const = true,
  minItems = true, maxItems = true, minLength = true, maxLength = true, pattern = true, minimum = true, maximum = true,
  exclusiveMinimum = true, exclusiveMaximum = true, anyOf = true, nullable = true, ["$ref"] = true, ["$defs"] = true, title = false,
  description = false, default = false, examples = false,
  deprecated = false, ["$schema"] = false, ["$id"] = false, ["$comment"] = false}

local compile

local function whole(s, path, name)
  local v = s[name]
  that(v == nil or math.type(v) == "integer" and v >= 0, path, "%s must be an integer that is not negative, found %s", name, v ~= nil and shown(v))
  return v
end

-- Returns the set of the names in `required`, which must be names of properties.
local function required_of(s, path, properties)
  local names, list = {}, s.required or {}
  that(values.kind(list) == "list" or s.required == nil, path, "required must be a list of names, found %s", s.required ~= nil and shown(s.required))
  for _, name in ipairs(list) do
    that(type(name) == "string" and properties.of[name] ~= nil, path, "required must list names of properties, found %s", shown(name))
    names[name] = true
  end
  return names
end

-- Returns an expression that matches an object with the schema's properties.
local function object_of(self, s, path)
  local properties = s.properties or values.dict()
  if values.kind(properties) == "list" and #properties == 0 then properties = values.dict() end
  that(values.kind(properties) == "dict", path, "properties must be an object, found %s", shown(properties))
  local required, others = required_of(s, path, properties), s.additionalProperties
  if #properties.keys == 0 and others ~= false then
    return map_of(others == nil and any or compile(self, others, path .. ".additionalProperties"))
  end
  that(others == nil or type(others) == "boolean" or is_schema(others), path, "additionalProperties must be true, false or a schema, found %s",
    others ~= nil and shown(others))
  -- expressions of the members from i on: `first` if no member precedes them, `later` if one does (then a comma comes
  -- first)
  local first, later = sequence(), sequence()
  for i = #properties.keys, 1, -1 do
    local name = properties.keys[i]
    local member = sequence(text(json_text(name)), spaces, text ":", spaces, compile(self, properties.of[name], path .. "." .. name))
    local alone, behind = sequence(member, later), sequence(comma(member), later)
    first, later = required[name] and alone or choice(alone, first), required[name] and behind or choice(behind, later)
  end
  return enclosed("{", first, "}")
end

-- Returns the values of two keywords that limit a number of parts; by default 0 and nil.
local function limits(s, path, low, high)
  local least, most = whole(s, path, low) or 0, whole(s, path, high)
  that(not most or least <= most, path, "%s must be at most %s = %s, found %d", low, high, most, least)
  return least, most
end

local function string_of(_, s, path)
  local least, most = limits(s, path, "minLength", "maxLength")
  if s.pattern == nil then
    if s.minLength == nil and s.maxLength == nil then return str end
    return sequence(text '"', repeated(function() return character end, least, most), text '"')
  end
  that(type(s.pattern) == "string" and utf8.len(s.pattern), path, "pattern must be a regular expression, found %s", shown(s.pattern))
  that(s.minLength == nil and s.maxLength == nil, path, "pattern and %s cannot be combined", s.minLength and "minLength" or "maxLength")
  local good, e = pcall(pattern, s.pattern, character, wide)
  if not good and type(e) ~= "table" then error(e, 0) end
  that(good, path, "pattern %s: %s", shown(s.pattern), not good and e.text)
  return sequence(text '"', e, text '"')
end

-- Returns the value of a keyword that bounds numbers; nil: none. round: function that converts a bound of integers to an
-- integer; nil: the bound must be one.
local function bound(s, path, name, round)
  local v = s[name]
  if v == nil then return nil end
  local n = type(v) == "number" and math.tointeger(round and round(v) or v)
  that(n and math.abs(n) <= MOST_BOUND, path, "%s must be %s from -1e18 to 1e18, found %s", name, round and "a number" or "an integer", shown(v))
  return n
end

-- Returns the tighter of two bounds, and true if it is the exclusive one. sign: 1 for lower, -1 for upper bounds.
local function tighter(inclusive, exclusive, sign)
  local outer = exclusive and (not inclusive or exclusive * sign >= inclusive * sign)
  return outer and exclusive or inclusive, outer
end

local function integer_of(_, s, path)
  local above, below = bound(s, path, "exclusiveMinimum", math.floor), bound(s, path, "exclusiveMaximum", math.ceil)
  local least = tighter(bound(s, path, "minimum", math.ceil), above and above + 1, 1)
  local most = tighter(bound(s, path, "maximum", math.floor), below and below - 1, -1)
  if not least and not most then return integer end
  that(not least or not most or least <= most, path, "minimum and maximum must allow an integer")
  return numbers.integers(least, most)
end

local function number_of(_, s, path)
  local least, above = tighter(bound(s, path, "minimum"), bound(s, path, "exclusiveMinimum"), 1)
  local most, below = tighter(bound(s, path, "maximum"), bound(s, path, "exclusiveMaximum"), -1)
  if not least and not most then return number end
  that(not least or not most or least < most or least == most and not above and not below, path, "minimum and maximum must allow a number")
  return numbers.decimals(least, most, above, below)
end

local function items_of(self, s, path)
  local least, most = limits(s, path, "minItems", "maxItems")
  return array_of(s.items == nil and any or compile(self, s.items, path .. ".items"), least, most)
end

-- Type of a JSON value -> function that returns the grammar expression for values of that type.
local types = {
  object = object_of, array = items_of,
  string = string_of, integer = integer_of, number = number_of,
  boolean = function() return choice(text "true", text "false") end, null = function() return text "null" end,
}

-- Returns true if a value has one of the types.
local function has_type(v, list)
  local kind = values.kind(v)
  local name = ({str = "string", float = "number", bool = "boolean", none = "null", list = "array", dict = "object", int = "integer"})[kind]
  for _, one in ipairs(list) do
    if one == name or one == "number" and kind == "int" then return true end
  end
  return false
end

-- Returns an expression that matches any value of enum or const that has one of the types. list: types; nil: all.
local function enum_of(self, s, path, list)
  local given, out = s.const ~= nil and values.list{s.const} or s.enum, choice()
  that(values.kind(given) == "list", path, "enum must be a list of values, found %s", shown(given))
  for _, v in ipairs(given) do
    count(self, path)
    if not list or has_type(v, list) then out[#out + 1] = text(json_text(v)) end
  end
  that(out[1], path, "enum must have a value%s", list and " of the type " .. table.concat(list, ", ") or "")
  return out
end

-- Returns the list of types of a schema; nil: the schema names none.
local function types_of(s, path)
  local list = s.type
  if s.type == nil then
    list = (s.properties ~= nil or s.required ~= nil or s.additionalProperties ~= nil) and {"object"} or
      (s.items ~= nil or s.minItems ~= nil or s.maxItems ~= nil) and {"array"} or
      (s.pattern ~= nil or s.minLength ~= nil or s.maxLength ~= nil) and {"string"} or
      (s.minimum ~= nil or s.maximum ~= nil or s.exclusiveMinimum ~= nil or s.exclusiveMaximum ~= nil) and {"number"} or nil
  elseif type(list) == "string" then
    list = {list}
  end
  for i, name in ipairs(list or {}) do
    that(type(name) == "string" and types[name], path, "unknown type %s; expected object, array, string, integer, number, boolean or null", shown(name))
    list[i] = name
  end
  that(not list or list[1], path, "type must be a type or a list of types, found %s", s.type ~= nil and shown(s.type))
  return list
end

local function any_of(self, s, path)
  local out = choice()
  that(values.kind(s.anyOf) == "list" and s.anyOf[1] ~= nil, path, "anyOf must be a list of schemas, found %s", shown(s.anyOf))
  for i, one in ipairs(s.anyOf) do out[i] = compile(self, one, ("%s.anyOf[%d]"):format(path, i - 1)) end
  return out
end

-- Returns the expression of the definition that $ref names.
local function ref_of(self, s, path)
  local name = type(s["$ref"]) == "string" and s["$ref"]:match "^#/%$defs/([^/~%%]+)$"
  that(name and self.defined[name], path, "$ref must be #/$defs/NAME, where NAME is in the $defs of the schema or of a schema around it; found %s", shown(s["$ref"]))
  return self.defined[name]
end

-- Compiles the definitions ($defs) of a schema. Returns the compiler of the schema's parts, which resolves references
-- to these definitions. A definition hides one of the same name in an enclosing schema. A definition may contain
-- itself, so a reference is resolved when the automaton reaches it.
local function with_definitions(self, s, path)
  local list, made = s["$defs"], {}
  that(is_schema(list), path, "$defs must be an object, found %s", shown(list))
  self = {total = self.total, defined = setmetatable({}, {__index = self.defined})}
  for _, name in ipairs(list.keys or {}) do
    self.defined[name] = lazy(function() return made[name] end)
  end
  for _, name in ipairs(list.keys or {}) do made[name] = compile(self, list.of[name], path .. ".$defs." .. name) end
  for _, name in ipairs(list.keys or {}) do
    that(automaton.new(made[name]).start, path .. ".$defs." .. name, "$ref must not lead back to the definition without a property or an element between")
  end
  return self
end

-- Keywords that make a schema a choice of values: {keyword, function that returns the expression, set of the other
-- restricting keywords that the schema may have}.
local choices = {{"$ref", ref_of, {}}, {"anyOf", any_of, {}}, {"enum", enum_of, {type = true}}, {"const", enum_of, {type = true}}}

-- Returns the expression of a schema that is a choice of values ($ref, anyOf, enum or const); nil: the schema has
-- none of these keywords.
local function choice_of(self, s, path, list)
  for _, row in ipairs(choices) do
    local own, make, beside = table.unpack(row)
    if s[own] ~= nil then
      for _, name in ipairs(check.sorted_keys(s)) do
        that(name == own or not keywords[name] or name == "nullable" or name == "$defs" or beside[name], path, "%s and %s cannot be combined", own, name)
      end
      return make(self, s, path, list)
    end
  end
end

function compile(self, v, path)
  count(self, path)
  if v == true then return any end
  that(is_schema(v), path, "a schema must be an object or true, found %s", shown(v))
  local s = v.of or {}
  for _, name in ipairs(v.keys or {}) do
    that(keywords[name] ~= nil, path, "the keyword %s is not supported", name)
  end
  that(s.nullable == nil or type(s.nullable) == "boolean", path, "nullable must be true or false, found %s", s.nullable ~= nil and shown(s.nullable))
  if s["$defs"] ~= nil then self = with_definitions(self, s, path) end
  local list = types_of(s, path)
  local out = choice_of(self, s, path, list)
  if not out and not list then return any end
  if not out then
    out = choice()
    for i, name in ipairs(list) do out[i] = types[name](self, s, path) end
  end
  return s.nullable and choice(out, text "null") or out
end

-- Returns an expression that matches any object, for requests without a schema.
function schema.object() return sequence(spaces, any_object) end

-- Returns true if all values of a schema are objects or arrays. Only these are accepted, because the end of a number,
-- for example, is known only from the byte after it.
local function is_closed(v)
  local s = is_schema(v) and v.of or {}
  if s.nullable or s.enum ~= nil or s.const ~= nil then return false end
  if values.kind(s.anyOf) ~= "list" or s.anyOf[1] == nil then return s.type == "object" or s.type == "array" end
  for _, one in ipairs(s.anyOf) do
    if not is_closed(one) then return false end
  end
  return true
end

-- Returns an expression that matches the objects and arrays that satisfy a schema. v: the schema, a template value
-- (chat/values.lua).
function schema.compile(v)
  that(is_closed(v), "schema", 'the type of the answer must be "object" or "array"; found %s', shown(v))
  return sequence(spaces, compile({total = {count = 0}, defined = {}}, v, "schema"))
end

return schema
