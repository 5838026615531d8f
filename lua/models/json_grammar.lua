-- json_grammar.lua - restricts a generated text to one JSON object, or to an object or array of a schema.
--
-- An automaton (json_automaton.lua) reads the text's bytes. For each of its states, the ids that may follow are found once:
-- all tokens are read in alphabetical order, so that tokens with a common beginning share its steps.

local automaton = require "rille.models.json_automaton"
local check = require "rille.check"
local schemas = require "rille.models.json_schema"
local values = require "rille.chat.values"

-- Bytes that a string of JSON contains as they are. A token of these bytes alone is plain.
local PLAIN <const> = " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'()*+,-./:;<=>?@[]^_`{|}~"

local KEPT <const> = 64 -- maximum number of states whose ids are stored, and of grammars of a tokenizer

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

-- Returns the set of the tokens' ids that may follow in a state.
local function followers(self, tokens, state)
  local set, states, failed = {}, {[0] = state}, math.huge -- failed: first byte that cannot follow
  for _, token in ipairs(tokens) do
    if token.common < failed then
      failed = math.huge
      for d = token.common + 1, #token.text do
        states[d] = automaton.step(self.automaton, states[d - 1], token.text:byte(d))
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

-- Returns true if no plain byte changes the state, as within a string. Then all plain tokens may follow.
local function is_unchanged(self, state)
  for _, byte in ipairs{PLAIN:byte(1, -1)} do
    if automaton.step(self.automaton, state, byte) ~= state then return false end
  end
  return true
end

-- Returns the ids that may follow in a state: {allowed = set}, or {banned = list of all other ids} if these are fewer.
local function fewer(self, state)
  local plain = is_unchanged(self, state)
  local set = followers(self, plain and self.others or self.tokens, state)
  local count, banned = plain and self.nplain or 0, {}
  for _ in pairs(set) do count = count + 1 end
  check.that(count > 0, "generate: response_format: no token of the tokenizer continues the JSON text")
  if 2 * count <= self.vocab then
    for id in pairs(plain and self.plain or {}) do set[id] = 1 end
    return {allowed = set}
  end
  for id = 0, self.vocab - 1 do
    if not set[id] and not (plain and self.plain[id]) then banned[#banned + 1] = id end
  end
  return {banned = banned}
end

-- ---- use ----

-- Returns the state after the first n ids of a text (text.lua). Stores the states of the text's new ids in the text;
-- ids that were only guessed may have changed since.
local function state_of(self, text, n)
  local states = text.grammar_states or {}
  text.grammar_states = states
  local state, same = self.automaton.start, true
  for i = text.prompt + 1, n do
    local id = text.ids[i]
    local known = states[i - text.prompt]
    same = same and known and known.id == id
    if not same then
      for _, byte in ipairs{(self.texts[id] or ""):byte(1, -1)} do state = state and automaton.step(self.automaton, state, byte) end
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
  if not state or state.is_complete then return nil end
  if not self.sets[state] then
    if self.count == KEPT then self.sets, self.count = {}, 0 end
    self.sets[state], self.count = fewer(self, state), self.count + 1
  end
  local set = self.sets[state]
  for _, id in ipairs(set.banned or {}) do adds[id] = -math.huge end
  return set.allowed
end

-- Returns true if the JSON text is complete.
function Grammar:is_complete(text)
  local state = state_of(self, text, #text.ids)
  return state and state.is_complete
end

local made = setmetatable({}, {__mode = "k"}) -- tokenizer -> {vocab, tokens, plain, others, texts, grammars = {schema -> grammar}, count}

local function tokens_for(tokenizer, vocab)
  local known = made[tokenizer]
  if not known or known.vocab ~= vocab then
    known = {vocab = vocab, tokens = compare_neighbours(tokens_of(tokenizer, vocab)), texts = {}, plain = {}, nplain = 0, others = {}, grammars = {}, count = 0}
    for _, token in ipairs(known.tokens) do
      known.texts[token.id] = token.text
      if token.text:find(("^[%s]+$"):format((PLAIN:gsub("%p", "%%%0")))) then
        known.plain[token.id], known.nplain = 1, known.nplain + 1
      else
        known.others[#known.others + 1] = {id = token.id, text = token.text}
      end
    end
    compare_neighbours(known.others)
    made[tokenizer] = known
  end
  return known
end

-- Returns the grammar of JSON for a tokenizer. vocab: number of the model's ids. schema: template value (chat/values.lua)
-- that the text satisfies; nil: any object.
return function(tokenizer, vocab, schema)
  local known, name = tokens_for(tokenizer, vocab), ""
  if schema then
    values.begin()
    name = values.json(schema, {comma = ",", colon = ":"})
  end
  if not known.grammars[name] then
    local expression = schema and schemas.compile(schema) or schemas.object()
    if known.count == KEPT then known.grammars, known.count = {}, 0 end
    known.grammars[name] = setmetatable({vocab = vocab, tokens = known.tokens, plain = known.plain, nplain = known.nplain,
      others = known.others, texts = known.texts, sets = {}, count = 0, automaton = automaton.new(expression)}, Grammar)
    known.count = known.count + 1
  end
  return known.grammars[name]
end
