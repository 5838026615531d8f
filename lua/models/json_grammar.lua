-- json_grammar.lua - restricts a generated text to one JSON object (RFC 8259).
--
-- A pushdown automaton reads the text's bytes. A state is a string: the mode, the number of white spaces since the last
-- other byte, and the open brackets. The text is complete when the last bracket is closed.

local check = require "rille.check"

local SPACES <const> = 32 -- maximum number of white spaces in a row, so that a model cannot write them without end
local KEPT <const> = 64 -- maximum number of states whose ids are stored

-- ---- the automaton ----

-- Mode -> function(c, stack), which returns the mode and the open brackets after the byte c; nil: c cannot follow.
local modes = {}

local function closed(stack) return #stack == 1 and "done" or "after", stack:sub(1, -2) end

function modes.start(c)
  if c == "{" then return "first_key", "{" end
end

local literals = {t = "rue", f = "alse", n = "ull"}

function modes.value(c, stack)
  if c == '"' then return "string", stack end
  if c == "{" then return "first_key", stack .. c end
  if c == "[" then return "first_item", stack .. c end
  if c == "-" then return "minus", stack end
  if literals[c] then return literals[c], stack end
  if c:find "%d" then return c == "0" and "zero" or "digits", stack end
end

function modes.first_item(c, stack)
  if c == "]" then return closed(stack) end
  return modes.value(c, stack)
end

function modes.next_key(c, stack)
  if c == '"' then return "key", stack end
end

function modes.first_key(c, stack)
  if c == "}" then return closed(stack) end
  return modes.next_key(c, stack)
end

function modes.colon(c, stack)
  if c == ":" then return "value", stack end
end

function modes.after(c, stack)
  local open = stack:sub(-1)
  if c == "," then return open == "{" and "next_key" or "value", stack end
  if c == (open == "{" and "}" or "]") then return closed(stack) end
end

-- Adds a mode of a number. more: pattern of a byte -> next mode. ends: the number may end here.
local function number(name, ends, more)
  modes[name] = function(c, stack)
    for pattern, mode in pairs(more) do
      if c:find(pattern) then return mode, stack end
    end
    if ends then return modes.after(c, stack) end
  end
end
number("minus", false, {["0"] = "zero", ["[1-9]"] = "digits"})
number("zero", true, {["%."] = "point", ["[eE]"] = "exponent"})
number("digits", true, {["%d"] = "digits", ["%."] = "point", ["[eE]"] = "exponent"})
number("point", false, {["%d"] = "fraction"})
number("fraction", true, {["%d"] = "fraction", ["[eE]"] = "exponent"})
number("exponent", false, {["%d"] = "power", ["[+-]"] = "sign"})
number("sign", false, {["%d"] = "power"})
number("power", true, {["%d"] = "power"})

for _, word in pairs(literals) do
  for i = 1, #word do
    local rest = word:sub(i)
    modes[rest] = function(c, stack)
      if c == rest:sub(1, 1) then return #rest > 1 and rest:sub(2) or "after", stack end
    end
  end
end

for name, after in pairs{key = "colon", string = "after"} do
  modes[name] = function(c, stack)
    if c == '"' then return after, stack end
    if c == "\\" then return name .. "\\", stack end
    if c >= " " then return name, stack end
  end
  modes[name .. "\\"] = function(c, stack)
    if c == "u" then return name .. 4, stack end
    if c:find '["\\/bfnrt]' then return name, stack end
  end
  for left = 1, 4 do -- hexadecimal digits that are missing
    modes[name .. left] = function(c, stack)
      if c:find "%x" then return left > 1 and name .. left - 1 or name, stack end
    end
  end
end

-- Modes in which white space may follow, and the mode after it.
local spaced = {}
for _, mode in ipairs{"start", "value", "first_item", "first_key", "next_key", "colon", "after"} do spaced[mode] = mode end
for _, mode in ipairs{"zero", "digits", "fraction", "power"} do spaced[mode] = "after" end

local steps = {} -- state -> {byte -> the next state; false: the byte cannot follow}

-- Returns the state after a byte; false: the byte cannot follow.
local function step(state, byte)
  local known = steps[state]
  if not known then
    known = {}
    steps[state] = known
  end
  if known[byte] ~= nil then return known[byte] end
  local c, mode, spaces, stack = string.char(byte), state:match "^(%S+) (%d+) (.*)$"
  local new, open = nil, stack
  if c:find "[ \t\r\n]" and spaced[mode] then
    new, spaces = tonumber(spaces) < SPACES and spaced[mode], tonumber(spaces) + 1
  elseif modes[mode] then
    new, open = modes[mode](c, stack)
    spaces = 0
  end
  known[byte] = new and ("%s %d %s"):format(new, spaces, open) or false
  return known[byte]
end

-- ---- tokens ----

-- Returns the tokens {id =, text =} of a tokenizer, sorted by text. The text is that in the middle of a text. Special
-- tokens are left out.
local function tokens_of(tokenizer, vocab)
  local list, first = {}, tokenizer:encode "a"
  local n, skip = #tokenizer:decode(first), {skip_special_tokens = true}
  for id = 0, vocab - 1 do
    local ids = table.move(first, 1, #first, 1, {})
    ids[#ids + 1] = id
    local good, text = pcall(tokenizer.decode, tokenizer, ids, skip)
    if good and #text > n then list[#list + 1] = {id = id, text = text:sub(n + 1)} end
  end
  table.sort(list, function(a, b) return a.text < b.text end)
  return list
end

-- Sets token.common, the number of bytes that a token shares with the token before it.
local function compare_neighbours(tokens)
  local before = ""
  for _, token in ipairs(tokens) do
    local n, most = 0, math.min(#before, #token.text)
    while n < most and before:byte(n + 1) == token.text:byte(n + 1) do n = n + 1 end
    token.common, before = n, token.text
  end
  return tokens
end

local Grammar = {}
Grammar.__index = Grammar

-- Returns the set of ids that may follow in a state.
local function followers(self, state)
  local set, states, failed = {}, {[0] = state}, math.huge -- failed: first byte that cannot follow
  for _, token in ipairs(self.tokens) do
    if token.common < failed then
      failed = math.huge
      for d = token.common + 1, #token.text do
        states[d] = step(states[d - 1], token.text:byte(d))
        if not states[d] then
          failed = d
          break
        end
      end
      if failed == math.huge then set[token.id] = 1 end
    end
  end
  return set
end

-- Returns {allowed = set}, or {banned = list of all other ids} if these are fewer.
local function fewer(self, set)
  local banned, count = {}, 0
  for id = 0, self.vocab - 1 do
    if set[id] then count = count + 1 else banned[#banned + 1] = id end
  end
  check.that(count > 0, "generate: response_format: no token of the tokenizer continues the JSON text")
  return count > #banned and {banned = banned} or {allowed = set}
end

-- ---- use ----

-- Returns the state after the first n ids of a text (text.lua). Stores the states of the text's new ids in the text;
-- ids that were only guessed may have changed since.
local function state_of(self, text, n)
  local states = text.grammar_states or {}
  text.grammar_states = states
  local state, same = "start 0 ", true
  for i = text.prompt + 1, n do
    local id = text.ids[i]
    local known = states[i - text.prompt]
    same = same and known and known.id == id
    if not same then
      for _, byte in ipairs{(self.texts[id] or ""):byte(1, -1)} do state = state and step(state, byte) end
      states[i - text.prompt] = {id = id, state = state}
    end
    state = states[i - text.prompt].state
  end
  if not same then -- later states belong to other ids
    for i = n - text.prompt + 1, #states do states[i] = nil end
  end
  return state
end

-- Restricts the id after the first n ids of a text. Returns the set of ids that may follow; or nil, after adding the ids
-- that may not follow to `adds`, if they are fewer. After a complete object, where a draft model may still guess, any
-- id may follow.
function Grammar:edit(text, n, adds)
  local state = state_of(self, text, n)
  if not state or state:find "^done " then return nil end
  if not self.sets[state] then
    if self.count == KEPT then self.sets, self.count = {}, 0 end
    self.sets[state], self.count = fewer(self, followers(self, state)), self.count + 1
  end
  local set = self.sets[state]
  for _, id in ipairs(set.banned or {}) do adds[id] = -math.huge end
  return set.allowed
end

-- Returns true if the JSON object is complete.
function Grammar:is_complete(text)
  local state = state_of(self, text, #text.ids)
  return state and state:find "^done " ~= nil
end

local made = setmetatable({}, {__mode = "k"}) -- tokenizer -> its grammar

-- Returns the grammar of JSON objects for a tokenizer. vocab: number of the model's ids.
return function(tokenizer, vocab)
  local grammar = made[tokenizer]
  if not grammar or grammar.vocab ~= vocab then
    local tokens, texts = compare_neighbours(tokens_of(tokenizer, vocab)), {}
    for _, token in ipairs(tokens) do texts[token.id] = token.text end
    grammar = setmetatable({vocab = vocab, tokens = tokens, texts = texts, sets = {}, count = 0}, Grammar)
    made[tokenizer] = grammar
  end
  return grammar
end
