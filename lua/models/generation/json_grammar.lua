-- json_grammar.lua - restricts a generated text to one JSON object, or to an object or array of a schema.
--
-- An automaton (json_automaton.lua) reads the text's bytes. To find the ids that may follow in a state, all tokens
-- are read in alphabetical order, so that tokens with a common beginning share steps of the automaton. The shape of a
-- state is the state without the expressions that follow, for example, the present string. For most tokens, such as
-- those within a string, the shape alone decides whether the token is permitted. Only the other tokens are read for
-- each state. Results for shapes and states are stored.

local rille = require "rille"
local automaton = require "rille.models.generation.json_automaton"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local schemas = require "rille.models.generation.json_schema"
local values = require "rille.chat.values"

local SKIP <const> = {skip_special_tokens = true}
local KEPT <const> = 64 -- maximum number of grammars of a tokenizer
local SETS <const> = 256 -- maximum number of states of a grammar whose ids are stored
local WIDE <const> = 512 -- minimum number of ids that are stored as a mask

-- ---- sorting the tokens of a tokenizer ----

-- Returns the text of an id in the middle of a text; "" for a special token.
local function text_of(self, id)
  self.probe[self.last] = id
  local good, text = pcall(self.tokenizer.decode, self.tokenizer, self.probe, SKIP)
  return good and text:sub(self.skipped + 1) or ""
end

-- Tokens are parallel arrays, sorted by text, because the collector traverses tables of integers fast:
--   data            all texts
--   ids, at, size   id, position before the first byte in data, number of bytes
--   common          number of bytes that a token shares with the token before it
--   skip            next token whose `common` is less
local function new_tokens(data) return {data = data, n = 0, ids = {}, at = {}, size = {}, common = {}, skip = {}} end

local function add_token(self, id, at, size)
  local n, common, data = self.n, 0, self.data
  if n > 0 then
    local before, most = self.at[n], math.min(self.size[n], size)
    while common < most and data:byte(before + common + 1) == data:byte(at + common + 1) do common = common + 1 end
  end
  n = n + 1
  self.n, self.ids[n], self.at[n], self.size[n], self.common[n] = n, id, at, size, common
end

-- Returns the first token, from i on, that shares fewer than `size` bytes with the token before it.
local function next_token(self, i, size)
  while i <= self.n and self.common[i] >= size do i = self.skip[i] end
  return i
end

-- Sets the field `skip` of all tokens, after the last token has been added.
local function finish_tokens(self)
  for i = self.n, 1, -1 do self.skip[i] = next_token(self, i + 1, self.common[i]) end
  return self
end

-- Returns the tokens of a tokenizer, without special tokens.
local function tokens_of(self, vocab)
  local first, same, texts = {}, {}, {} -- first: text -> id; same: id -> another id with the same text
  for id = 0, vocab - 1 do
    local text = text_of(self, id)
    if first[text] then
      same[id] = first[text]
    elseif text ~= "" then
      texts[#texts + 1] = text
    end
    if text ~= "" then first[text] = id end
  end
  table.sort(texts)
  local tokens, at = new_tokens(table.concat(texts)), 0
  for _, text in ipairs(texts) do
    local id = first[text]
    while id do
      add_token(tokens, id, at, #text)
      id = same[id]
    end
    at = at + #text
  end
  return finish_tokens(tokens)
end

-- ---- finding the ids that may follow ----

-- Reads all tokens from a state of an automaton. Returns two lists: the ids of the tokens that the automaton accepts,
-- and the tokens that it refuses but whose first bytes lead to a complete state. If the state is a shape, other
-- expressions follow that complete state, so the second list must be read again in each state of the shape.
local function read_tokens(tokens, machine, state)
  local ids, open = {}, {}
  local states, ends, i = {[0] = state}, {[0] = false}, 1
  while i <= tokens.n do
    local d, at = tokens.common[i], tokens.at[i]
    local s = states[d]
    while s and d < tokens.size[i] do
      local byte = tokens.data:byte(at + d + 1)
      local after = s.after[byte]
      if after == nil then after = automaton.step(machine, s, byte) end
      d, ends[d + 1], s = d + 1, ends[d] or s.is_complete and d > 0, after
      states[d] = s
    end
    local last = i + 1
    if s then
      ids[#ids + 1] = tokens.ids[i]
    else
      last = next_token(tokens, last, d)
      for k = i, ends[d] and last - 1 or i - 1 do open[#open + 1] = k end
    end
    i = last
  end
  return ids, open
end

-- Returns a tensor (1, vocab) that is 1 for each of the ids.
local function mask_row(ids, vocab, where)
  local row = {}
  for i = 1, vocab do row[i] = 0 end
  for _, id in ipairs(ids) do row[id + 1] = 1 end
  return rille.tensor({row}, {dtype = "u8", placement = where.placement, sbp = layout.replicated(where.placement)})
end

-- Returns a function mask(where, none), which returns a tensor (1, vocab) on the placement of `where`: 1 for each of
-- the ids, else 0. none: true returns zeros only.
local function new_mask(ids, vocab)
  local full, empty = setmetatable({}, {__mode = "k"}), setmetatable({}, {__mode = "k"})
  return function(where, none)
    local known = none and empty or full
    known[where] = known[where] or mask_row(none and {} or ids, vocab, where)
    return known[where]
  end
end

-- Returns the ids that may follow in all states of a shape, as {ids = list}, or as {mask = function of new_mask()} if
-- they are many. The field `rest` has the tokens that must be read in each state of the shape.
local function set_of_shape(self, shape)
  local ids, open = read_tokens(self.tokens, self.shapes, shape)
  local rest = new_tokens(self.tokens.data)
  for _, k in ipairs(open) do add_token(rest, self.tokens.ids[k], self.tokens.at[k], self.tokens.size[k]) end
  local set = {ids = ids, rest = finish_tokens(rest)}
  if #ids >= WIDE then set.ids, set.mask = {}, new_mask(ids, self.vocab) end
  return set
end

local Grammar = {}
Grammar.__index = Grammar

local function set_of_state(self, state)
  local known = self.known
  local shape = automaton.shape(known.shapes, state)
  shape.set = shape.set or set_of_shape(known, shape)
  local list = read_tokens(shape.set.rest, self.automaton, state)
  table.move(shape.set.ids, 1, #shape.set.ids, #list + 1, list)
  check.that(list[1] or shape.set.mask, "generate: response_format: no token of the tokenizer continues the JSON text")
  return {ids = list, mask = shape.set.mask}
end

-- ---- restricting the ids of a text ----

-- Returns the state after the first n ids of a text (text.lua). Stores the state after each new id in the text. A
-- stored state is used only for the same id, because an id that a draft model guessed may have been replaced.
local function state_of(self, text, n)
  local states = text.grammar_states or {}
  text.grammar_states = states
  local state, same = self.automaton.start, true
  for i = text.prompt + 1, n do
    local id = text.ids[i]
    local known = states[i - text.prompt]
    same = same and known and known.id == id
    if not same then
      for _, byte in ipairs{text_of(self.known, id):byte(1, -1)} do state = state and automaton.step(self.automaton, state, byte) end
      states[i - text.prompt] = {id = id, state = state}
    end
    state = states[i - text.prompt].state
  end
  if not same then -- later states belong to other ids
    for i = n - text.prompt + 1, #states do states[i] = nil end
  end
  return state
end

-- Returns the ids that may follow the first n ids of a text: {ids = list, mask = mask of further ids or nil}; nil: any id.
-- After a complete text, where a draft model may still guess, any id may follow.
function Grammar:allowed(text, n)
  local state = state_of(self, text, n)
  if not state or state.is_complete then return nil end
  if not self.sets[state] then
    if self.count == SETS then self.sets, self.count = {}, 0 end
    self.sets[state], self.count = set_of_state(self, state), self.count + 1
  end
  return self.sets[state]
end

-- Returns true if the JSON text is complete.
function Grammar:is_complete(text)
  local state = state_of(self, text, #text.ids)
  return state and state.is_complete
end

local made = setmetatable({}, {__mode = "k"}) -- tokenizer -> {tokenizer, vocab, probe, last, skipped, tokens, shapes, grammars = {schema -> grammar}, count}

local function known_of(tokenizer, vocab)
  local known = made[tokenizer]
  if not known or known.vocab ~= vocab then
    known = {tokenizer = tokenizer, vocab = vocab, probe = tokenizer:encode "a", shapes = automaton.new_shapes(), grammars = {}, count = 0}
    known.skipped, known.last = #tokenizer:decode(known.probe), #known.probe + 1
    known.tokens = tokens_of(known, vocab)
    made[tokenizer] = known
  end
  return known
end

-- Returns the grammar of JSON for a tokenizer. vocab: number of the model's ids. schema: template value (chat/values.lua)
-- that the text satisfies; nil: any object.
return function(tokenizer, vocab, schema)
  local known, name = known_of(tokenizer, vocab), ""
  if schema then
    values.begin()
    name = values.json(schema, {comma = ",", colon = ":"})
  end
  if not known.grammars[name] then
    local expression = schema and schemas.compile(schema) or schemas.object()
    if known.count == KEPT then known.grammars, known.count = {}, 0 end
    known.grammars[name] = setmetatable({known = known, sets = {}, count = 0, automaton = automaton.new(expression)}, Grammar)
    known.count = known.count + 1
  end
  return known.grammars[name]
end
