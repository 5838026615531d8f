-- json-schema.lua - tests the option response_format = {type = "json_schema"}: texts of random schemas' grammars satisfy the schemas, and
-- values that satisfy the schemas are texts of the grammars. A small checker of schemas in this file decides.
--
-- SHOW=FILE writes a line {"schema":, "text":} per text, for another checker:
--   python -c 'import json, jsonschema, sys; [jsonschema.validate(json.loads(r["text"]), r["schema"]) for r in map(json.loads, sys.stdin)]' <FILE
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"
local automaton = require "rille.models.generation.json_automaton"
local json = require "rille.json"
local schemas = require "rille.models.generation.json_schema"
local values = require "rille.chat.values"

local seed = math.tointeger(os.getenv "SEED") or 5
math.randomseed(seed)
print("# seed " .. seed)
local show = os.getenv "SHOW" and io.open(os.getenv "SHOW", "w")

local function compact(v) return (json.encode(v):gsub("\n *", ""):gsub('": ', '":')) end

-- ---- a checker of values against schemas ----

local satisfies

local function type_name(v)
  if v == json.null then return "null" end
  if type(v) == "number" then return math.type(v) == "integer" and "integer" or "number" end
  if type(v) == "table" then return getmetatable(v) and "array" or "object" end
  return type(v)
end

local function has_type(v, list)
  for _, name in ipairs(type(list) == "table" and list or {list}) do
    if name == type_name(v) or name == "number" and type(v) == "number" then return true end
  end
  return list == nil
end

local function is_one_of(v, list)
  for _, one in ipairs(list) do
    if compact(one) == compact(v) then return true end
  end
end

local function object_good(v, s, root)
  for _, name in ipairs(s.required or {}) do
    if v[name] == nil then return false end
  end
  for name, one in pairs(v) do
    local of = s.properties and s.properties[name]
    if of == nil then of = s.additionalProperties end
    if of == false or of ~= nil and of ~= true and not satisfies(one, of, root) then return false end
  end
  return true
end

local function array_good(v, s, root)
  if #v < (s.minItems or 0) or #v > (s.maxItems or #v) then return false end
  for _, one in ipairs(v) do
    if s.items and not satisfies(one, s.items, root) then return false end
  end
  return true
end

function satisfies(v, s, root)
  if s["$ref"] then return satisfies(v, root["$defs"][s["$ref"]:match "[^/]+$"], root) end
  if s.nullable and v == json.null then return true end
  for _, one in ipairs(s.anyOf or {}) do
    if satisfies(v, one, root) then return true end
  end
  if s.anyOf or not has_type(v, s.type) then return false end
  if s.enum and not is_one_of(v, s.enum) or s.const ~= nil and not is_one_of(v, {s.const}) then return false end
  if type_name(v) == "object" then return object_good(v, s, root) end
  return type_name(v) ~= "array" or array_good(v, s, root)
end

-- ---- random schemas, texts and values ----

local function pick(list) return list[math.random(#list)] end
local names = {"a", "bb", "b", 'q"', "é", "a b"}
local constants = {1, -2.5, true, json.null, "x", "xy", 'q"\n', json.array{1, "x"}, {a = 1}}
local random_schema

local function random_object(depth)
  local s = {type = "object", properties = {}, required = json.array{}, additionalProperties = pick{false, true}}
  for _, name in ipairs(names) do
    if math.random(3) == 1 then
      s.properties[name] = random_schema(depth + 1)
      if math.random(2) == 1 then table.insert(s.required, name) end
    end
  end
  if next(s.properties) == nil then s.properties, s.additionalProperties = nil, pick{false, random_schema(depth + 1)} end
  return s
end

local makers = {
  function() return {type = pick{"string", "integer", "number", "boolean", "null"}} end,
  function() return {type = json.array{"string", pick{"null", "integer", "array"}}, description = "d"} end,
  function() return {enum = json.array{pick(constants), pick(constants), "z"}} end,
  function() return {const = pick(constants)} end,
  function() return {["$ref"] = "#/$defs/tree"} end,
  random_object,
  function(depth)
    local least = math.random(0, 2)
    return {type = "array", items = random_schema(depth + 1), minItems = least, maxItems = pick{false, least + math.random(0, 2)} or nil}
  end,
  function(depth) return {anyOf = json.array{random_schema(depth + 1), random_schema(depth + 1)}} end,
}
function random_schema(depth) return makers[math.random(depth < 3 and #makers or 5)](depth) end

local tree = {type = "object", properties = {left = {anyOf = json.array{{["$ref"] = "#/$defs/tree"}, {type = "null"}}}, n = {type = "integer"}},
  required = json.array{"n"}, additionalProperties = false}

local function random_root()
  local s = random_object(0)
  s["$defs"] = {tree = tree}
  return s
end

local function grammar(s) return automaton.new(schemas.compile(values.from_json(compact(s), "schema"))) end

-- Returns a random text of a grammar; nil if the text does not end. Prefers bytes that close a string, an array or an object.
local function random_text(g)
  local state, text = g.start, {}
  while not state.is_complete do
    local bytes, closing = {}, {}
    for byte = 9, 255 do
      if automaton.step(g, state, byte) and not (byte == 92 and #text > 50) then
        bytes[#bytes + 1] = byte
        if ('"]},:'):find(string.char(byte), 1, true) then closing[#closing + 1] = byte end
      end
    end
    if not bytes[1] or #text == 2000 then return nil end
    local byte = pick(closing[1] and math.random(100) <= 60 + #text and closing or bytes)
    text[#text + 1], state = string.char(byte), automaton.step(g, state, byte)
  end
  return table.concat(text)
end

-- Reads a text with a grammar. Returns true if the text is complete.
local function accepts(g, text)
  local state = g.start
  for i = 1, #text do
    state = state and automaton.step(g, state, text:byte(i))
  end
  return state and state.is_complete
end

-- Returns JSON of a random value that satisfies a schema.
local function random_value(s, root, depth)
  if s["$ref"] then return random_value(root["$defs"].tree, root, depth) end
  if s.anyOf then return random_value(depth > 4 and s.anyOf[#s.anyOf] or pick(s.anyOf), root, depth) end
  if s.enum or s.const ~= nil then return compact(s.enum and pick(s.enum) or s.const) end
  local kind = type(s.type) == "table" and pick(s.type) or s.type
  if kind == "array" then
    local parts = {}
    for i = 1, math.random(s.minItems or 0, s.maxItems or (s.minItems or 0) + 1) do parts[i] = s.items and random_value(s.items, root, depth + 1) or "[{}]" end
    return "[" .. table.concat(parts, pick{",", ", ", " ,\n  "}) .. "]"
  elseif kind == "object" then
    local parts, list = {}, {}
    for name in pairs(s.properties or {}) do list[#list + 1] = name end
    table.sort(list)
    for _, name in ipairs(list) do
      if has_type(name, "string") and is_one_of(name, s.required) or depth < 4 and math.random(2) == 1 then
        parts[#parts + 1] = compact(name) .. pick{":", ": "} .. random_value(s.properties[name], root, depth + 1)
      end
    end
    return pick{"{", "{\n"} .. table.concat(parts, pick{",", ", "}) .. "}"
  end
  return pick(({string = {'""', '"a\\u00e9\\n"', '"é"'}, integer = {"0", "-12"}, number = {"0", "1.5", "-2e+3"}, boolean = {"true", "false"}, null = {"null"}})[kind])
end

tap.group("random schemas", function()
  local wrong, refused, ntexts, nschemas, nvalues = {}, {}, 0, 0, 0
  for i = 1, 400 do
    local s = random_root()
    if tap.share(i) then
      local g = grammar(s)
      nschemas = nschemas + 1
      for _ = 1, 6 do
        local text = random_text(g)
        local good, v = pcall(json.decode, text)
        if text then
          ntexts = ntexts + 1
          -- Accepts a difference between RFC 8259 and jansson: jansson refuses numbers of many digits, and names that
          -- occur twice.
          local strict = not good and (v:find "big" or v:find "duplicate")
          if not strict and not (good and satisfies(v, s, s)) then wrong[#wrong + 1] = compact(s) .. " " .. text end
          if show then show:write(compact{schema = s, text = text}, "\n") end
        end
        local value = random_value(s, s, 0)
        nvalues = nvalues + 1
        if satisfies(json.decode(value), s, s) and not accepts(g, value) then refused[#refused + 1] = compact(s) .. " " .. value end
      end
    end
  end
  tap.ok(#wrong == 0 and ntexts > nschemas, ("%d texts of %d schemas satisfy them"):format(ntexts, nschemas), wrong[1])
  tap.ok(#refused == 0, ("%d values that satisfy their schema are accepted"):format(nvalues), refused[1])
end)

tap.group("cases", function()
  local function verdicts(s, ...)
    local g, out = grammar(s), {}
    for i, text in ipairs{...} do out[i] = accepts(g, text) and true or false end
    return out
  end
  local s = {type = "object", properties = {n = {type = "integer", nullable = true}, l = {type = "array", items = {type = "boolean"}, minItems = 1, maxItems = 2}}, required = json.array{"l"}}
  tap.is(verdicts(s, '{"l": [true]}', '{"l":[true,false],"n":null}', '{"l":[]}', '{"l":[true,true,true]}', '{"n":1}', '{"l":[true],"n":1.0}', '{"l":[true],"x":1}'),
    {true, true, false, false, false, false, false}, "items, nullable, required")
  tap.is(verdicts({type = "object", additionalProperties = {type = "string"}}, "{}", '{"x": "y", "z": ""}', '{"x": 1}'), {true, true, false}, "values of any names")
  tap.is(verdicts({type = "object", additionalProperties = false}, "{}", " { }", '{"x": 1}'), {true, true, false}, "no names")
  tap.is(verdicts({type = "array", items = {type = "integer"}, minItems = 1}, "[1, 2]", "[]", "{}"), {true, false, false}, "an array")
  local inner = {type = "object", properties = {x = {["$ref"] = "#/$defs/a"}, y = {["$ref"] = "#/$defs/b"}}, ["$defs"] = {a = {const = 1}}}
  tap.is(verdicts({anyOf = json.array{inner, {type = "object", properties = {z = {["$ref"] = "#/$defs/a"}}}}, ["$defs"] = {a = {const = 2}, b = {const = 3}}},
    '{"x": 1, "y": 3}', '{"z": 2}', '{"x": 2}', '{"z": 1}', "{}"), {true, true, false, false, true}, "a choice of objects; inner definitions hide outer ones")
  local g = automaton.new(schemas.compile(values.from_json('{"type": "object", "properties": {"z": {}, "a": {"const": 1}}, "required": ["z", "a"]}', "schema")))
  tap.is({accepts(g, '{"z": [{}], "a": 1}'), accepts(g, '{"a": 1, "z": 2}')}, {true, false}, "properties have the order of the JSON text")
end)

tap.group("errors", function()
  local function refuses(s, text) tap.fails(function() grammar(s) end, {text}, text) end
  local function of(p) return {type = "object", properties = {p = p}} end
  refuses(of{type = "string", format = "date"}, "schema.p: the keyword format is not supported")
  refuses(of{["not"] = {}}, "the keyword not is not supported")
  refuses({type = "string"}, 'the type of the answer must be "object" or "array"; found {"type":"string"}')
  refuses({anyOf = json.array{{type = "object"}, {type = "null"}}}, 'the type of the answer must be "object" or "array"')
  refuses(of{type = "text"}, 'unknown type "text"; expected object')
  refuses(of{type = "array", minItems = 3, maxItems = 2}, "minItems must be at most maxItems = 2, found 3")
  refuses(of{type = "array", minItems = -1}, "minItems must be an integer that is not negative, found -1")
  refuses(of{anyOf = json.array{}}, "anyOf must be a list of schemas")
  refuses(of{anyOf = json.array{{type = "null"}}, type = "string"}, "anyOf and type cannot be combined")
  refuses(of{enum = json.array{1}, type = "string"}, "enum must have a value of the type string")
  refuses(of{enum = 3}, "enum must be a list of values, found 3")
  refuses(of(false), "a schema must be an object or true, found false")
  refuses(of{["$ref"] = "#/$defs/none"}, '$ref must be #/$defs/NAME, where NAME is in the $defs of the schema or of a schema around it; found "#/$defs/none"')
  refuses({type = "object", ["$defs"] = {a = {["$ref"] = "#/$defs/a"}}}, "$ref must not lead back to the definition")
  refuses({type = "object", properties = {p = {}}, required = json.array{"q"}}, 'required must list names of properties, found "q"')
  refuses({type = "object", properties = 3}, "properties must be an object, found 3")
  refuses({type = "object", properties = {p = {}}, additionalProperties = 3}, "additionalProperties must be true, false or a schema, found 3")
  local many = json.array{}
  for i = 1, 10001 do many[i] = i end
  refuses(of{enum = many}, "the schema must have at most 10000 schemas, names and values")
end)

tap.group("generation", function()
  local tokenizer = rille.tokenizer("t/golden/text/tokenizer.json")
  rille.manual_seed(3)
  local model = rille.models.llama.new{vocab = tokenizer.size, length = 192, layers = 1, heads = 2, width = 16, hidden = 24}
  for _, p in ipairs(model:parameters()) do rille.no_grad(function() p:mul_(6) end) end
  local s = {type = "object", properties = {a = {enum = json.array{"x", "yes"}}, b = {type = "array", items = {type = "boolean"}, maxItems = 2}}, required = json.array{"a"}}
  local wrong, ended = {}, 0
  for i, form in ipairs{s, compact(s), s} do
    local prompt = tokenizer:encode("text " .. i)
    local rows, more = model:generate({prompt}, {max_new_tokens = 150, tokenizer = tokenizer, seed = i, logprobs = 0, n = 2, response_format = {type = "json_schema", json_schema = {schema = form}}})
    for r, row in ipairs(rows) do
      local text = tokenizer:decode(table.move(row, #prompt + 1, #row, 1, {}))
      local good, v = pcall(json.decode, text)
      if more[r].ended == "stop" then
        ended = ended + 1
        if not (good and satisfies(v, s, s)) then wrong[#wrong + 1] = text end
      end
    end
  end
  tap.ok(#wrong == 0 and ended > 0, ("%d of 6 texts of a model end and satisfy the schema"):format(ended), wrong[1])
end)
tap.done()
