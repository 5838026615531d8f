-- library.lua - filters, tests, methods and functions of chat templates.
--
-- A filter is f(value, args, named, line, env); a test has the same arguments and returns a boolean; a method is
-- f(object, args, line). args: positional arguments; named: keyword arguments; line: line of the template, for
-- messages.
-- env.bounded raises an error if a result is too long; env.filter and env.test apply a filter or test by name.

local lexer = require "rille.chat.lexer"
local values = require "rille.chat.values"
local fail, kind, none, list_of = lexer.fail, values.kind, values.none, values.list

local library = {filters = {}, tests = {}, methods = {str = {}, list = {}, dict = {}}, functions = {}}
local filters, tests, methods, functions = library.filters, library.tests, library.methods, library.functions

-- Returns an argument by position i or by name; `otherwise` if it is missing.
local function argument(args, named, i, name, otherwise)
  local v = args[i]
  if v == nil and named then v = named[name] end
  if v == nil then return otherwise end
  return v
end

local function integer(v, line, what)
  if kind(v) == "bool" then return v and 1 or 0 end
  if math.type(v) ~= "integer" then fail(line, "%s must be an integer, found a value of kind %s", what, kind(v)) end
  return v
end

local function text_of(v, line, what)
  if type(v) ~= "string" then fail(line, "%s must be a string, found a value of kind %s", what, kind(values.check(v, line))) end
  return v
end

-- Returns a list with the elements of a list from position `first` on.
local function copy(list, first) return table.move(list, first or 1, #list, 1, list_of{}) end

-- ---- functions for strings ----

-- White space characters beyond ASCII that Python's str.strip() removes.
local wide = {}
for _, c in ipairs{0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000} do wide[utf8.char(c)] = true end
for c = 0x2000, 0x200a do wide[utf8.char(c)] = true end

local function trimmed_left(s)
  local at = 1
  while true do
    at = s:match("^[%s\x1c-\x1f]*()", at)
    local n = wide[s:sub(at, at + 1)] and 2 or wide[s:sub(at, at + 2)] and 3
    if not n then return s:sub(at) end
    at = at + n
  end
end

local function trimmed_right(s)
  local last = #s
  while last > 0 do
    if s:find("^[%s\x1c-\x1f]", last) then last = last - 1
    elseif wide[s:sub(math.max(last - 1, 1), last)] then last = last - 2
    elseif wide[s:sub(math.max(last - 2, 1), last)] then last = last - 3
    else break end
  end
  return s:sub(1, last)
end

local function trimmed(s, which, characters, line)
  if characters ~= nil and characters ~= none then
    local set = {}
    for _, c in ipairs(values.characters(text_of(characters, line, "the characters to strip"))) do set[c] = true end
    local list = values.characters(s)
    local first, last = 1, #list
    while which ~= "right" and first <= last and set[list[first]] do first = first + 1 end
    while which ~= "left" and last >= first and set[list[last]] do last = last - 1 end
    return table.concat(list, "", first, last)
  end
  if which ~= "right" then s = trimmed_left(s) end
  return which ~= "left" and trimmed_right(s) or s
end

-- Replaces at most `most` occurrences of `from` by `to`; most nil: all occurrences.
local function replaced(s, from, to, most)
  local out, at = {}, 1
  if from == "" then
    for _, c in ipairs(values.characters(s)) do
      if most and #out // 2 >= most then out[#out + 1] = c else out[#out + 1] = to out[#out + 1] = c end
    end
    return table.concat(out) .. ((not most or #out // 2 < most) and to or "")
  end
  while not most or most > 0 do
    local first, last = s:find(from, at, true)
    if not first then break end
    out[#out + 1] = s:sub(at, first - 1) .. to
    at, most = last + 1, most and most - 1
  end
  return table.concat(out) .. s:sub(at)
end

local function split(s, separator, most, line)
  local out, at = list_of{}, 1
  if separator == nil or separator == none then
    for at_word, word, behind in s:gmatch("()(%S+)()") do
      if most and #out == most then out[#out + 1] = (trimmed(s:sub(at_word), "right")) return out end
      out[#out + 1], at = word, behind
    end
    return out
  end
  if text_of(separator, line, "the separator") == "" then fail(line, "split: the separator must not be empty") end
  while not most or #out < most do
    local first, last = s:find(separator, at, true)
    if not first then break end
    out[#out + 1] = s:sub(at, first - 1)
    at = last + 1
  end
  out[#out + 1] = s:sub(at)
  return out
end

-- Splits a string at a separator at most `most` times, from the right.
local function split_right(s, separator, most, line)
  local parts = split(s, separator, nil, line)
  if not most or #parts <= most + 1 or separator == nil or separator == none then return parts end
  local keep = #parts - most
  return table.move(parts, keep + 1, #parts, 2, list_of{table.concat(parts, separator, 1, keep)})
end

local function most_of(v, line)
  if v == nil then return nil end
  local n = integer(v, line, "the number of times")
  return n >= 0 and math.min(n, 1 << 40) or nil
end

local function titled(s)
  return (s:gsub("(%a)(%a*)", function(first, rest) return first:upper() .. rest:lower() end))
end
local function capitalized(s) return s:sub(1, 1):upper() .. s:sub(2):lower() end

-- Returns true if the string begins with one of the texts, or, if at_end is true, ends with one.
local function has_end(s, what, at_end, line)
  for _, e in ipairs(kind(what) == "list" and what or {what}) do
    text_of(e, line, "the start or end")
    if (at_end and s:sub(math.max(#s - #e + 1, 1)) or s:sub(1, #e)) == e then return true end
  end
  return false
end

local function position(s, what, first, line)
  local at = s:find(text_of(what, line, "the text to find"), 1, true)
  if not first then
    local next = at
    while next do
      at, next = next, s:find(what, next + 1, true)
    end
  end
  return at and values.length(s:sub(1, at - 1), line) or -1
end

local str = methods.str
function str.strip(s, a, line) return trimmed(s, "both", a[1], line) end
function str.lstrip(s, a, line) return trimmed(s, "left", a[1], line) end
function str.rstrip(s, a, line) return trimmed(s, "right", a[1], line) end
function str.split(s, a, line, named) return split(s, argument(a, named, 1, "sep"), most_of(argument(a, named, 2, "maxsplit"), line), line) end
function str.rsplit(s, a, line, named) return split_right(s, argument(a, named, 1, "sep"), most_of(argument(a, named, 2, "maxsplit"), line), line) end
function str.startswith(s, a, line) return has_end(s, a[1], false, line) end
function str.endswith(s, a, line) return has_end(s, a[1], true, line) end
function str.upper(s) return s:upper() end
function str.lower(s) return s:lower() end
function str.title(s) return titled(s) end
function str.capitalize(s) return capitalized(s) end
function str.find(s, a, line) return position(s, a[1], true, line) end
function str.rfind(s, a, line) return position(s, a[1], false, line) end
function str.index(s, a, line)
  local at = position(s, a[1], true, line)
  if at < 0 then fail(line, "index: the string does not contain %s", values.text(a[1], true)) end
  return at
end
function str.count(s, a, line) return select(2, s:gsub(text_of(a[1], line, "the text to count"):gsub("%p", "%%%0"), "")) end
function str.isdigit(s) return s:find("^%d+$") ~= nil end
function str.isalpha(s) return s:find("^%a+$") ~= nil end
function str.isspace(s) return s:find("^%s+$") ~= nil end
function str.removeprefix(s, a, line) return has_end(s, text_of(a[1], line, "the prefix"), false, line) and s:sub(#a[1] + 1) or s end
function str.removesuffix(s, a, line)
  return #text_of(a[1], line, "the suffix") > 0 and has_end(s, a[1], true, line) and s:sub(1, #s - #a[1]) or s
end
function str.splitlines(s)
  local out = list_of{}
  for text in (s:gsub("\r\n", "\n"):gsub("\r", "\n"):gsub("([^\n])$", "%1\n")):gmatch("([^\n]*)\n") do out[#out + 1] = text end
  return out
end
function str.replace(s, a, line, _, env)
  local to = text_of(a[2], line, "the replacement")
  env.bounded(#s * (#to + 1), line)
  return replaced(s, text_of(a[1], line, "the text to replace"), to, most_of(a[3], line))
end
function str.join(s, a, line, _, env)
  local parts, bytes = {}, 0
  for i, e in ipairs(values.elements(a[1], line)) do
    parts[i] = text_of(e, line, "an element of join")
    bytes = bytes + #e + #s
    env.bounded(bytes, line)
  end
  return table.concat(parts, s)
end

-- ---- functions for lists and dictionaries ----

local function pairs_of(d)
  local out = list_of{}
  for i, key in ipairs(d.keys) do out[i] = values.tuple{key, d.of[key]} end
  return out
end

function methods.dict.items(d) return pairs_of(d) end
function methods.dict.keys(d) return copy(d.keys) end
function methods.dict.values(d)
  local out = list_of{}
  for i, key in ipairs(d.keys) do out[i] = d.of[key] end
  return out
end
function methods.dict.get(d, a)
  local v = a[1] ~= nil and d.of[a[1]]
  if v == nil or v == false and d.of[a[1]] == nil then return a[2] == nil and none or a[2] end
  return v
end
function methods.list.index(l, a, line)
  for i, e in ipairs(l) do
    if values.equal(e, a[1]) then return i - 1 end
  end
  fail(line, "index: the list does not contain %s", values.text(a[1], true))
end
function methods.list.count(l, a)
  local n = 0
  for _, e in ipairs(l) do n = n + (values.equal(e, a[1]) and 1 or 0) end
  return n
end

-- ---- the table of filters ----

local function text_filter(f)
  return function(v) return f(values.text(v)) end
end
filters.upper, filters.lower = text_filter(string.upper), text_filter(string.lower)
-- Capitalises words. Unlike the method title(), the filter starts a word only after white space and some brackets.
filters.title = text_filter(function(s)
  return ((" " .. s:lower()):gsub("([-%s({%[<])(%l)", function(before, first) return before .. first:upper() end):sub(2))
end)
filters.capitalize = text_filter(capitalized)
filters.string = text_filter(function(s) return s end)
filters.safe = filters.string
function filters.trim(v, a, named, line) return trimmed(values.text(v), "both", argument(a, named, 1, "chars"), line) end
function filters.escape(v)
  local map = {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&#34;", ["'"] = "&#39;"}
  return (values.text(v):gsub("[&<>\"']", map))
end
filters.e = filters.escape
function filters.length(v, _, _, line) return kind(v) == "undefined" and 0 or values.length(v, line) end
filters.count = filters.length
function filters.default(v, a, named)
  local otherwise = argument(a, named, 1, "default_value", "")
  local falsy = argument(a, named, 2, "boolean", false)
  if kind(v) == "undefined" or (values.truth(falsy) and not values.truth(v)) then return otherwise end
  return v
end
filters.d = filters.default
function filters.join(v, a, named, line, env)
  local attribute, parts = argument(a, named, 2, "attribute"), list_of{}
  for i, e in ipairs(values.elements(v, line)) do
    if attribute then e = env.path(e, attribute, line) end
    parts[i] = values.text(e)
  end
  return str.join(values.text(argument(a, named, 1, "d", "")), {parts}, line, nil, env)
end
function filters.first(v, _, _, line)
  local e = values.elements(v, line)[1]
  return e == nil and values.undefined("the first element of an empty list") or e
end
function filters.last(v, _, _, line)
  local all = values.elements(v, line)
  return #all == 0 and values.undefined("the last element of an empty list") or all[#all]
end
function filters.list(v, _, _, line) return copy(values.elements(v, line)) end
function filters.items(v, _, _, line)
  if kind(v) == "undefined" then return list_of{} end
  if kind(v) ~= "dict" then fail(line, "items: expected a dictionary, found a value of kind %s", kind(v)) end
  return pairs_of(v)
end
function filters.reverse(v, _, _, line)
  local out, all = list_of{}, values.elements(v, line)
  for i = #all, 1, -1 do out[#out + 1] = all[i] end
  return type(v) == "string" and table.concat(out) or out
end
function filters.replace(v, a, named, line, env)
  local from, to = argument(a, named, 1, "old"), argument(a, named, 2, "new")
  return str.replace(values.text(v), {from, to, argument(a, named, 3, "count")}, line, nil, env)
end
function filters.tojson(v, a, named, line)
  values.check(v, line)
  local indent, separators = argument(a, named, 1, "indent"), named.separators
  if indent == none then indent = nil end
  if indent ~= nil and type(indent) ~= "string" then indent = (" "):rep(math.max(0, math.min(integer(indent, line, "the indent"), 64))) end
  local pair = separators and separators ~= none and values.elements(separators, line)
  return values.json(v, {indent = indent, comma = pair and text_of(pair[1], line, "a separator") or indent and "," or ", ",
    colon = pair and text_of(pair[2], line, "a separator") or ": ", sort = values.truth(named.sort_keys or false)}, line)
end
function filters.indent(v, a, named, line, env)
  local width, first, blank = argument(a, named, 1, "width", 4), argument(a, named, 2, "first", false), argument(a, named, 3, "blank", false)
  local pad = type(width) == "string" and width or (" "):rep(math.min(integer(width, line, "the width"), 1024))
  local s, out = values.text(v) .. "\n", {}
  env.bounded(#s * (#pad + 1), line)
  for text in s:gmatch("([^\n]*)\n") do
    out[#out + 1] = (#out == 0 or (text == "" and not values.truth(blank))) and text or pad .. text
  end
  return (values.truth(first) and pad or "") .. table.concat(out, "\n")
end
function filters.int(v, a, named)
  local otherwise = argument(a, named, 1, "default", 0)
  if kind(v) == "bool" then return v and 1 or 0 end
  local n = type(v) == "number" and v or type(v) == "string" and tonumber((v:gsub("_", "")))
  if not n or n ~= n or math.abs(n) >= 2 ^ 63 then return otherwise end
  return math.tointeger(n >= 0 and math.floor(n) or math.ceil(n))
end
function filters.float(v, a, named)
  local n = type(v) == "boolean" and (v and 1 or 0) or type(v) == "number" and v or type(v) == "string" and tonumber(v)
  return n and n + 0.0 or argument(a, named, 1, "default", 0.0)
end
function filters.abs(v, _, _, line)
  if kind(v) == "bool" then return v and 1 or 0 end
  if type(v) ~= "number" then fail(line, "abs: expected a number, found a value of kind %s", kind(v)) end
  return math.abs(v)
end
function filters.round(v, a, named, line)
  if kind(v) == "bool" then return v and 1 or 0 end
  if type(v) ~= "number" then fail(line, "round: expected a number, found a value of kind %s", kind(v)) end
  if math.type(v) == "integer" then return v end
  local digits = math.max(-15, math.min(integer(argument(a, named, 1, "precision", 0), line, "the precision"), 15))
  return tonumber(("%." .. math.max(digits, 0) .. "f"):format(v)) + 0.0
end
function filters.sum(v, a, named, line, env)
  local attribute, total = argument(a, named, 1, "attribute"), argument(a, named, 2, "start", 0)
  if type(total) ~= "number" then fail(line, "sum: expected a number as start, found a value of kind %s", kind(total)) end
  for _, e in ipairs(values.elements(v, line)) do
    if attribute then e = env.path(e, attribute, line) end
    if type(e) ~= "number" then fail(line, "sum: expected numbers, found a value of kind %s", kind(e)) end
    total = total + e
  end
  return total
end

-- Returns a sorted copy. The sort is stable, as Python's is.
local function sorted(all, key, reverse, line)
  local order, out = {}, list_of{}
  for i, e in ipairs(all) do order[i] = {e, key(e), i} end
  table.sort(order, function(a, b)
    local less, more = values.less(a[2], b[2], line), values.less(b[2], a[2], line)
    if less == more then return a[3] < b[3] end
    if reverse then return more end
    return less
  end)
  for i, e in ipairs(order) do out[i] = e[1] end
  return out
end
function filters.sort(v, a, named, line, env)
  local attribute = argument(a, named, 3, "attribute")
  local cased = values.truth(argument(a, named, 2, "case_sensitive", false))
  return sorted(values.elements(v, line), function(e)
    if attribute then e = env.path(e, attribute, line) end
    return not cased and type(e) == "string" and e:lower() or e
  end, values.truth(argument(a, named, 1, "reverse", false)), line)
end
function filters.dictsort(v, a, named, line)
  return sorted(filters.items(v, {}, {}, line), function(e) return type(e[1]) == "string" and e[1]:lower() or e[1] end,
    values.truth(argument(a, named, 3, "reverse", false)), line)
end
function filters.unique(v, _, _, line)
  local out = list_of{}
  for _, e in ipairs(values.elements(v, line)) do
    if not values.contains(out, e, line) then out[#out + 1] = e end
  end
  return out
end
local function extreme(want)
  return function(v, _, _, line)
    local best = values.undefined("the extreme of an empty list")
    for i, e in ipairs(values.elements(v, line)) do
      if i == 1 or values.less(e, best, line) == want and not values.equal(e, best) then best = e end
    end
    return best
  end
end
filters.min, filters.max = extreme(true), extreme(false)
function filters.batch(v, a, named, line)
  local out, n = list_of{}, integer(argument(a, named, 1, "linecount"), line, "linecount")
  if n < 1 then fail(line, "batch: linecount must be at least 1, found %d", n) end
  for _, e in ipairs(values.elements(v, line)) do
    if #out == 0 or #out[#out] == n then out[#out + 1] = list_of{} end
    table.insert(out[#out], e)
  end
  return out
end
function filters.wordcount(v) return select(2, values.text(v):gsub("[%w_\x80-\xff]+", "")) end
function filters.attr(v, a, _, line, env) return env.path(v, a[1], line) end

function filters.map(v, a, named, line, env)
  local out = list_of{}
  for i, e in ipairs(values.truth(v) and values.elements(v, line) or {}) do
    if named.attribute ~= nil then
      local found = env.path(e, named.attribute, line)
      out[i] = kind(found) == "undefined" and named.default ~= nil and named.default or found
    else
      out[i] = env.filter(text_of(a[1], line, "the name of a filter"), e, copy(a, 2), named, line)
    end
  end
  return out
end

-- Creates a filter: select and selectattr (want = true), or reject and rejectattr (want = false).
local function selecting(want, by_attribute)
  return function(v, a, _, line, env)
    local out, first = list_of{}, by_attribute and 2 or 1
    for _, e in ipairs(values.truth(v) and values.elements(v, line) or {}) do
      local of = by_attribute and env.path(e, a[1], line) or e
      local good = values.truth(of)
      if a[first] ~= nil then good = env.test(text_of(a[first], line, "the name of a test"), of, copy(a, first + 1), line) end
      if good == want then out[#out + 1] = e end
    end
    return out
  end
end
filters.select, filters.reject = selecting(true, false), selecting(false, false)
filters.selectattr, filters.rejectattr = selecting(true, true), selecting(false, true)

-- ---- the table of tests ----

local function of_kind(...)
  local kinds = {}
  for _, k in ipairs{...} do kinds[k] = true end
  return function(v) return kinds[kind(v)] or false end
end
tests.undefined, tests.none = of_kind("undefined"), of_kind("none")
function tests.defined(v) return kind(v) ~= "undefined" end
tests.string, tests.mapping, tests.boolean = of_kind("str"), of_kind("dict"), of_kind("bool")
tests.number, tests.integer, tests.float = of_kind("int", "float", "bool"), of_kind("int"), of_kind("float")
tests.iterable, tests.sequence = of_kind("str", "list", "dict", "undefined"), of_kind("str", "list", "dict", "undefined")
tests.callable = of_kind("function")
tests["true"] = function(v) return v == true end
tests["false"] = function(v) return v == false end
function tests.equalto(v, a) return values.equal(v, a[1]) end
function tests.ne(v, a) return not values.equal(v, a[1]) end
function tests.lt(v, a, line) return values.less(v, a[1], line) end
function tests.gt(v, a, line) return values.less(a[1], v, line) end
function tests.le(v, a, line) return not values.less(a[1], v, line) end
function tests.ge(v, a, line) return not values.less(v, a[1], line) end
tests.eq, tests.lessthan, tests.greaterthan = tests.equalto, tests.lt, tests.gt
tests["=="], tests["!="], tests["<"], tests[">"], tests["<="], tests[">="] = tests.eq, tests.ne, tests.lt, tests.gt, tests.le, tests.ge
tests["in"] = function(v, a, line) return values.contains(a[1], v, line) end
function tests.sameas(v, a) return rawequal(v, a[1]) end
local function tested_number(v, line)
  if type(v) == "number" then return v end
  return integer(v, line, "the value of a test")
end
function tests.odd(v, _, line) return tested_number(v, line) % 2 == 1 end
function tests.even(v, _, line) return tested_number(v, line) % 2 == 0 end
function tests.divisibleby(v, a, line)
  local n = integer(a[1], line, "the divisor")
  if n == 0 then fail(line, "the divisor must not be 0") end
  return tested_number(v, line) % n == 0
end
function tests.lower(v) local s = values.text(v) return s == s:lower() and s ~= s:upper() end
function tests.upper(v) local s = values.text(v) return s == s:upper() and s ~= s:lower() end

-- ---- functions that templates can call ----

local MOST <const> = 100000 -- maximum length of a range, as in Jinja's sandbox

function functions.range(a, _, line)
  local from, to, step = 0, a[1], a[3] or 1
  if a[2] ~= nil then from, to = a[1], a[2] end
  from, to, step = integer(from, line, "range: the start"), integer(to, line, "range: the end"), integer(step, line, "range: the step")
  if step == 0 then fail(line, "range: the step must not be 0") end
  if (to - from) // step > MOST then fail(line, "range: expected at most %d numbers, found more", MOST) end
  local out = list_of{}
  for i = from, to - (step > 0 and 1 or -1), step do out[#out + 1] = i end
  return out
end
function functions.dict(_, named)
  local d = values.dict()
  for _, name in ipairs(named.names or {}) do values.put(d, name, named[name]) end
  return d
end
function functions.namespace(a, named)
  local attributes = {}
  if kind(a[1]) == "dict" then
    for _, key in ipairs(a[1].keys) do attributes[key] = a[1].of[key] end
  end
  for _, name in ipairs(named.names or {}) do attributes[name] = named[name] end
  return setmetatable({attributes = attributes}, values.Namespace)
end
function functions.raise_exception(a, _, line) fail(line, "%s", values.text(a[1] == nil and "" or a[1])) end
function functions.strftime_now(a, _, line)
  local format = text_of(a[1], line, "strftime_now: the format")
  local out = format:gsub("%%(%-?)(.?)", function(bare, c)
    local good, text = pcall(os.date, "%" .. c)
    if not good then fail(line, "strftime_now: unknown conversion '%%%s'", c) end
    return bare == "-" and text:gsub("^[0 ]+(.)", "%1") or text
  end)
  return out
end

return library
