-- complete.lua - completes the text before the cursor, and shows the arguments of the call at the cursor.
--
--   to            globals, locals, Lua's words
--   rille.ma      fields; net.fc1:for, x[0]:ma, rille.randn{2, 3}:ma   methods, also after calls and indices
--   x:softmax{a   options of the called function, from the pages and the operators' records
--   sbp = "S      words that an option accepts; rille.placement("c; otherwise file names
--   :ti  ?mat     commands; pages
--
-- Completion never runs user code. Tables are read with raw access. The kind of a call's result is read from the
-- function's help page; without a page it is unknown. The chunk is passed as tokens {kind, from, to}, up to the
-- cursor.

local rille = require "rille"
local check = require "rille.base.check"
local pages = require "rille.pages"
local metatable_of, next, rawget, type = debug.getmetatable, next, rawget, type

local keywords = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return then true until
  while]]):gmatch("%a+") do keywords[word] = true end
local values = {["nil"] = true, ["true"] = true, ["false"] = true}

-- ---- finding the call and bracket at the cursor ----

local closing = {["("] = ")", ["{"] = "}", ["["] = "]"}

-- Scans the tokens up to the cursor, and sets three fields of `chunk`:
--   first   index of the token at which the expression at the cursor begins
--   closed  index of an opening bracket -> index of its closing bracket
--   top     the innermost bracket that is open at the cursor:
--             open    its text; "": no bracket is open
--             at      index of its token
--             first   tokens first to at - 1 are the expression before it, such as the called function
--             key     NAME, if the cursor is in NAME = VALUE in the bracket
--             commas  number of commas so far in the bracket
--             outer   the bracket around it
--             of      key of the outer bracket
local function read(chunk)
  local text, tokens = chunk.text, chunk.tokens
  local top, first, before, closed = {open = "", commas = 0}, nil, "", {}
  for i, t in ipairs(tokens) do
    local word = text:sub(t[2], t[3])
    if t[1] == "name" then
      if before ~= "." and before ~= ":" then first = (not keywords[word] or values[word]) and i or nil end
    elseif t[1] == "string" then
      first = first or i
    elseif closing[word] then
      top = {open = word, at = i, first = first, outer = top, commas = 0, of = top.key}
      first = nil
    elseif word == closing[top.open] then
      closed[top.at], first, top = i, top.first or word == ")" and top.at or nil, top.outer
    elseif word == "," or word == ";" then
      top.commas, top.key, first = top.commas + 1, nil, nil
    elseif word == "=" then
      local name = tokens[i - 1]
      top.key = name and name[1] == "name" and text:sub(name[2], name[3]) or nil
      first = nil
    elseif word == "." and before == "." then
      first, word = nil, ".."
      chunk.joins = i
    elseif word ~= "." and word ~= ":" then
      first = nil
    end
    before = word
  end
  chunk.top, chunk.first, chunk.closed = top, first, closed
  return chunk
end

local function word_of(chunk, i)
  local t = chunk.tokens[i]
  return t and chunk.text:sub(t[2], t[3])
end

-- Returns the help page of the function that the tokens from first to last name; nil: none.
local function page_of(chunk, first, last)
  local from, to = chunk.tokens[first], chunk.tokens[last]
  if not from or not to then return nil end
  local name = chunk.text:sub(from[2], to[3]):match("[%w_.:]*$")
  return name ~= "" and pages.find(name:gsub("^[.:]", "")) or nil
end

-- Returns the help page of the innermost open call whose function has a page, and the bracket of the call.
local function call_of(chunk)
  local frame = chunk.top
  while frame do
    local page = frame.first and frame.open ~= "[" and page_of(chunk, frame.first, frame.at - 1)
    if page then return page, frame end
    frame = frame.outer
  end
end

-- ---- finding the kind of an expression's value ----

-- An expression is described by a table: {value =} if its value is known without a call, else {is = "tensor"}: the
-- kind of the value, whose help pages are tensor.*. page: the help page, if the value is a function.
local methods = metatable_of(rille.tensor(0)).__methods

local is_module = {}
for _, name in ipairs(pages.modules) do is_module[name] = true end

local function is_of(value)
  local meta = type(value) == "userdata" and metatable_of(value)
  local name = meta and rawget(meta, "__name")
  return type(name) == "string" and name:match("^rille%.(.*)") or nil
end

-- Returns a field of a table by raw access; looks in the table, and then in up to seven __index tables behind it.
local function field(t, name)
  for _ = 1, 8 do
    if type(t) ~= "table" then return nil end
    local value = rawget(t, name)
    -- loads the module, because `name` is a module of Rille that is loaded at first use
    if t == rille and is_module[name] then value = t[name] end
    if value ~= nil then return value end
    local meta = metatable_of(t)
    t = type(meta) == "table" and check.index_of(meta) or nil
  end
end

local function module_of(value)
  if value == rille then return "" end
  for _, name in ipairs(pages.modules) do
    if rawget(rille, name) == value then return name .. "." end
  end
end

local function member(thing, name)
  local is = thing.is or is_of(thing.value)
  if is then
    local row = pages.row(is .. "." .. name)
    return {is = row and row.is, page = is == "tensor" and methods[name] and pages.find(name) or row and is .. "." .. name}
  end
  if type(thing.value) == "string" then return {value = string[name]} end
  local module = module_of(thing.value) or thing.page and thing.page .. "."
  return {value = field(thing.value, name), page = module and pages.find(module .. name)}
end

local function is_class(t) return type(t) == "table" and check.index_of(t) == t end

local function result(thing)
  local value, page = thing.value, thing.page
  local row = page and pages.row(page)
  if row and row.is then return {is = row.is} end
  if is_class(value) then return {value = value} end
  if field(value, "forward") then return {is = "tensor"} end
  local record = page and rille._operator(page)
  return record and record.results == 1 and {is = "tensor"} or {}
end

local function index(chunk, thing, first, last)
  local is = thing.is or is_of(thing.value)
  if is == "tensor" then return {is = is} end
  if first ~= last or type(thing.value) ~= "table" then return {} end
  local t, word = chunk.tokens[first], word_of(chunk, first)
  if t[1] == "number" then return {value = rawget(thing.value, math.tointeger(tonumber(word)) or false)} end
  if t[1] == "string" then return {value = rawget(thing.value, word:sub(2, -2))} end
  return {}
end

local function start(chunk, first, last)
  local t, word = chunk.tokens[first], word_of(chunk, first)
  if t[1] == "string" then return {value = ""}, first end
  if word == "(" then
    local close = chunk.closed[first]
    if not close or close > last then return {}, last end
    return chunk.meaning(first + 1, close - 1), close
  end
  local value = rawget(chunk.env, word)
  if value == nil then value = rawget(_G, word) end
  return {value = value}, first
end

-- Returns the description of the expression in the tokens from first to last, {value =} or {is = kind of the value};
-- {} if unknown.
local function meaning(chunk, first, last)
  local thing, i = start(chunk, first, last)
  while i < last do
    i = i + 1
    local word, close = word_of(chunk, i), chunk.closed[i]
    if word == "." or word == ":" then
      i = i + 1
      thing = member(thing, word_of(chunk, i) or "")
    elseif word == "[" and close then
      thing, i = index(chunk, thing, i + 1, close - 1), close
    elseif closing[word] and close or chunk.tokens[i][1] == "string" then
      thing, i = result(thing), close or i
    else -- the token is the operand of an operator, as in a + b
      return (thing.is or is_of(thing.value)) == "tensor" and {is = "tensor"} or {}
    end
  end
  return thing
end

-- ---- collecting the completions ----

local function collector(prefix)
  local list, seen = {}, {}
  return list, function(name, text)
    if type(name) ~= "string" or name:sub(1, #prefix) ~= prefix then return end
    -- private names are offered only if the typed text begins with _
    if name:sub(1, 1) == "_" and prefix == "" or not name:find("^[%a_][%w_]*$") then return end
    text = text or name
    if seen[text] then return end
    seen[text] = true
    list[#list + 1] = text
  end
end

-- Offers a method as a completion. An in-place method, such as add_, is offered only if its base name is typed
-- completely.
local function add_method(add, prefix, name)
  if name:sub(-1) ~= "_" or #prefix >= #name - 1 or not methods[name:sub(1, -2)] then add(name) end
end

local function members_of_kind(is, prefix, functions, add)
  if is == "tensor" then
    for name in next, methods do add_method(add, prefix, name) end
  end
  for _, name in ipairs(pages.below(is)) do
    if not functions or pages.signature(is .. "." .. name):find(":" .. name, 1, true) then add(name) end
  end
end

local function members(thing, prefix, functions)
  local list, add = collector(prefix)
  local value = thing.value
  local is = thing.is or is_of(value)
  if is then members_of_kind(is, prefix, functions, add) end
  local t = type(value) == "string" and string or value
  for _ = 1, 8 do
    if type(t) ~= "table" then break end
    for name, v in next, t do
      if not functions or type(v) == "function" then add(name) end
    end
    if t == rille then
      for _, name in ipairs(pages.modules) do add(name) end
    end
    local meta = metatable_of(t)
    t = type(meta) == "table" and check.index_of(meta) or nil
  end
  return list
end

local function names(env, prefix)
  local list, add = collector(prefix)
  for _, t in ipairs{keywords, _G, env ~= _G and env or nil} do
    for _, name in ipairs(rille._keys(t, prefix)) do add(name) end
  end
  return list
end

local function beginning(words, prefix)
  local list = {}
  for _, word in ipairs(words) do
    if word:sub(1, #prefix) == prefix then list[#list + 1] = word end
  end
  return list
end

-- Returns the options of the innermost call if an option may stand at the cursor: after "{" or ",".
local function options(chunk, last, prefix)
  local before = word_of(chunk, last)
  if chunk.top.open ~= "{" or before ~= "{" and before ~= "," then return {} end
  local page = call_of(chunk)
  local list = {}
  for _, option in ipairs(page and pages.options(page) or {}) do
    if option.name:sub(1, #prefix) == prefix then list[#list + 1] = option.name .. " = " end
  end
  return list
end

-- Returns the words that can complete the string at the cursor: the values of an option of the call, or of the call's
-- first argument.
local function words(chunk)
  local top, page, frame = chunk.top, call_of(chunk)
  local key = top.key or top.open == "{" and top.of
  if key then return pages.words(page, key) end
  local last = #chunk.tokens - 1
  -- a call with a string argument but no parentheses, f "..."
  if last > 0 and chunk.first and chunk.first <= last then page, frame = page_of(chunk, chunk.first, last), nil end
  if page and (not frame or frame == top and top.open == "(" and top.commas == 0) then return pages.words(page, 1) end
end

local complete = {}

-- Returns true if the token is a string without its closing quote.
local function is_open(text, t)
  if not t or t[1] ~= "string" or t[3] < #text then return false end
  local quote = text:sub(t[2], t[2])
  if quote == "[" then return not text:find("^%[=*%[.*%]=*%]$", t[2]) end
  if t[3] == t[2] or text:sub(-1) ~= quote then return true end
  return #text:sub(t[2] + 1, -2):match("\\*$") % 2 == 1
end

-- Returns the sorted completions, and the number of bytes before the cursor that they replace. files(prefix): lists
-- paths.
function complete.list(env, text, tokens, commands, files)
  local command = text:match("^%s*:(%a*)$")
  if command then return beginning(commands, command), #text - #command end
  local page = text:match("^%s*%?%s*([%w_.]*)$") or text:match("^%s*:h[elp]*%s+([%w_.]*)$")
  if page then return beginning(pages.names(), page), #text - #page end

  local last = #tokens
  local t = tokens[last]
  if text:find("--", t and t[3] + 1 or 1, true) then return {}, #text end -- the cursor is in a comment
  local chunk = read{text = text, tokens = tokens, env = env}
  function chunk.meaning(first, to) return meaning(chunk, first, to) end
  if is_open(text, t) then
    local typed = text:sub(t[2] + 1)
    local known = words(chunk)
    return known and beginning(known, typed) or files(typed), t[2]
  end
  local prefix = t and t[1] == "name" and t[3] == #text and word_of(chunk, last) or ""
  if prefix ~= "" then last = last - 1 end
  local list, sign = nil, chunk.joins ~= last and word_of(chunk, last)
  if (sign == "." or sign == ":") and chunk.first and chunk.first < last then
    list = members(meaning(chunk, chunk.first, last - 1), prefix, sign == ":")
  elseif sign ~= "." and sign ~= ":" or sign == ":" and last == 1 then
    list = options(chunk, last, prefix)
    if #list == 0 then list = names(env, prefix) end
  end
  table.sort(list or {})
  return list or {}, #text - #prefix
end

-- Returns the arguments of the call at the cursor, in one line; nil if there is no call or its page is unknown.
function complete.hint(text, tokens)
  local chunk = read{text = text, tokens = tokens}
  local page, frame = call_of(chunk)
  if not page then return nil end
  local signature = pages.signature(page)
  local before, arguments = signature:match("^(.-)%f[%w_]" .. page:match("[%w_]+$") .. "([%({].*)$")
  if not before then return signature end
  local self_given = word_of(chunk, frame.at - 2) == ":" and before == ""
  return self_given and arguments:gsub("^%(%w+,? ?", "(", 1) or arguments
end

return complete
