-- json-limits.lua - tests the keywords of JSON schemas that limit strings and numbers: pattern, minLength, maxLength,
-- minimum, maximum and the exclusive ones.
local tap = dofile("t/lib/tap.lua")
local automaton = require "rille.models.generation.json_automaton"
local json = require "rille.json"
local schemas = require "rille.models.generation.json_schema"
local values = require "rille.chat.values"
local golden = dofile("t/golden/text/json_patterns.lua")

local function compact(v) return (json.encode(v):gsub("\n *", "")) end

-- Returns the grammar of an array with one value that satisfies a schema.
local function grammar(s)
  return automaton.new(schemas.compile(values.from_json(compact{type = "array", items = s, minItems = 1, maxItems = 1}, "schema")))
end

local function accepts(g, text)
  local state = g.start
  for byte in ("[" .. text .. "]"):gmatch "." do state = state and automaton.step(g, state, byte:byte()) end
  return state and state.is_complete or false
end

tap.group("patterns", function()
  local words = {{""}}
  for n = 1, golden.most do
    words[n + 1] = {}
    for _, word in ipairs(words[n]) do
      for _, c in ipairs(golden.alphabet) do table.insert(words[n + 1], word .. c) end
    end
  end
  local all = {}
  for _, list in ipairs(words) do table.move(list, 1, #list, #all + 1, all) end
  for _, case in ipairs(golden) do
    if tap.share() then
      local g, wrong = grammar{type = "string", pattern = case.pattern}, {}
      for i, word in ipairs(all) do
        local digit = tonumber(case.found:sub((i + 3) // 4, (i + 3) // 4), 16)
        if accepts(g, compact(word)) ~= (digit >> (3 - (i - 1) % 4) & 1 == 1) then wrong[#wrong + 1] = word end
      end
      tap.is(wrong, {}, ("%s matches the strings that Python's re finds it in"):format(case.pattern))
    end
  end
  local g = grammar{type = "string", pattern = "^[\\n\\t\\x01\\\\]+$"}
  tap.is({accepts(g, '"\\n\\t\\u0001\\\\"'), accepts(g, '"\\""')}, {true, false}, "control characters are written as escapes")
  tap.is(accepts(grammar{pattern = "^a$"}, '"a"'), true, "a pattern without a type is a string's")
end)

-- Calls fn(least, most) for all pairs of bounds; false: no bound.
local function each_pair(list, fn)
  for _, least in ipairs(list) do
    for _, most in ipairs(list) do fn(least, most) end
  end
end

local function keyword(v) return v or nil end

-- Returns true if a number is between two bounds. open: true excludes the bounds.
local function between(v, least, most, open)
  if open then return (not least or v > least) and (not most or v < most) end
  return (not least or v >= least) and (not most or v <= most)
end

local bounds = {false, -1234, -100, -99, -10, -1, 0, 1, 5, 9, 10, 11, 99, 100, 209, 1000}
local probes, seen = {}, {}
for _, b in ipairs(bounds) do
  for d = -1, 1 do
    local n = (b or 77) + d
    if not seen[n] then probes[#probes + 1], seen[n] = n, true end
  end
end
for _, n in ipairs{123456789012, -123456789012, 150, 199, 200, -55} do probes[#probes + 1] = n end

tap.group("integers", function()
  local wrong, tried = {}, 0
  each_pair(bounds, function(least, most)
    for _, open in ipairs{false, true} do
      if tap.share() then
        local low, high = open and "exclusiveMinimum" or "minimum", open and "exclusiveMaximum" or "maximum"
        local s = {type = "integer", [low] = keyword(least), [high] = keyword(most)}
        local good, g = pcall(grammar, s)
        for _, n in ipairs(probes) do
          tried = tried + 1
          local want = between(n, least, most, open)
          if want ~= (good and accepts(g, tostring(n))) then wrong[#wrong + 1] = compact(s) .. " " .. n end
        end
        if good and least and accepts(g, "01") then wrong[#wrong + 1] = "01" end
      end
    end
  end)
  tap.ok(#wrong == 0 and tried > 100, ("%d integers are accepted if and only if they are between the bounds"):format(tried), wrong[1])
  tap.is({accepts(grammar{type = "integer", minimum = 0.5}, "0"), accepts(grammar{type = "integer", minimum = 0.5}, "1")}, {false, true}, "bounds of integers may be fractions")
end)

tap.group("numbers", function()
  local wrong, tried = {}, 0
  each_pair({false, -11, -1, 0, 1, 10}, function(least, most)
    for how = 0, 3 do
      if tap.share() then
        local above, below = how & 1 == 1, how & 2 == 2
        local s = {type = "number", [above and "exclusiveMinimum" or "minimum"] = keyword(least), [below and "exclusiveMaximum" or "maximum"] = keyword(most)}
        local good, g = pcall(grammar, s)
        for n = -12, 12 do
          for _, fraction in ipairs{"", ".0", ".5", ".001", ".000"} do
            for _, sign in ipairs(n == 0 and {"", "-"} or {""}) do
              local text = sign .. n .. fraction
              local v = tonumber(text)
              local want = between(v, least, nil, above) and between(v, nil, most, below)
              local found = good and accepts(g, text)
              tried = tried + 1
              if found and not want or want and not found and not text:find "^%-0%.?0*$" then wrong[#wrong + 1] = compact(s) .. " " .. text end
            end
          end
        end
      end
    end
  end)
  tap.ok(#wrong == 0 and tried > 100, ("%d numbers are accepted if and only if they are between the bounds"):format(tried), wrong[1])
end)

tap.group("lengths", function()
  local characters, wrong, tried = {"a", "é", "\\n", "\\u00e9", "\u{1f600}", "\\ud83d\\ude00"}, {}, 0
  each_pair({false, 0, 1, 2, 3, 5}, function(least, most)
    if not (least and most and least > most) then
      local g = grammar{type = "string", minLength = keyword(least), maxLength = keyword(most)}
      for n = 0, 7 do
        local text = {}
        for i = 1, n do text[i] = characters[(i + n) % #characters + 1] end
        tried = tried + 1
        if accepts(g, '"' .. table.concat(text) .. '"') ~= between(n, least, most) then wrong[#wrong + 1] = compact{least, most, n} end
      end
    end
  end)
  tap.ok(#wrong == 0, ("%d strings are accepted if and only if they have so many characters"):format(tried), wrong[1])
end)

tap.group("errors", function()
  local function refuses(s, text) tap.fails(function() grammar(s) end, {text}, text) end
  local function pattern(p, text) refuses({type = "string", pattern = p}, ("schema.items: pattern %s: at byte %s"):format(compact(p), text)) end
  pattern("a(?=b)", "4, groups that begin with (? are not supported, except (?:")
  pattern("(?<x>a)", "3, groups that begin with (? are not supported")
  pattern("a\\b", "3, \\b is not supported")
  pattern("\\p{L}", "3, \\p is not supported")
  pattern("(a)\\1", "5, \\1 is not supported")
  pattern("(a", "2, a group must end with )")
  pattern("[a", "2, a class must end with ]")
  pattern("[z-a]", "5, a range of a class must be of two ASCII characters in order")
  pattern("[^é]", "5, a negated class must have ASCII characters only")
  pattern("a**", "3, * is not supported here")
  pattern("a{3,1}", "6, the counts of a quantifier must be from 0 to 1000, in order")
  pattern("a{1001}", "7, the counts of a quantifier")
  pattern("a^", "2, ^ is not supported here")
  pattern("a)", "2, ) is not supported here")
  refuses({type = "string", pattern = 3}, "schema.items: pattern must be a regular expression, found 3")
  refuses({type = "string", pattern = "a", minLength = 1}, "schema.items: pattern and minLength cannot be combined")
  refuses({type = "string", pattern = "a", maxLength = 1}, "schema.items: pattern and maxLength cannot be combined")
  refuses({type = "string", minLength = 2, maxLength = 1}, "schema.items: minLength must be at most maxLength = 1, found 2")
  refuses({type = "string", minLength = -1}, "minLength must be an integer that is not negative, found -1")
  refuses({type = "number", minimum = 0.5}, "minimum must be an integer from -1e18 to 1e18, found 0.5")
  refuses({type = "integer", minimum = "1"}, 'minimum must be a number from -1e18 to 1e18, found "1"')
  refuses({type = "integer", exclusiveMinimum = true}, "exclusiveMinimum must be a number from -1e18 to 1e18, found true")
  refuses({type = "integer", minimum = 3, maximum = 2}, "minimum and maximum must allow an integer")
  refuses({type = "number", minimum = 2, exclusiveMaximum = 2}, "minimum and maximum must allow a number")
  refuses({type = "integer", multipleOf = 2}, "the keyword multipleOf is not supported")
end)

tap.done()
