-- scheduler.lua - m:scheduler{slots = 8}: continuous batching. A text is a prompt with its continuation. Texts can be
-- added at any step.
--
--   local s = m:scheduler{slots = 4, length = 512}
--   local text = s:add({1, 2, 3}, {max_new_tokens = 20})
--   while not text.ended do s:step() end                  text.ids, text.piece, text.logprobs
--
-- A slot holds the keys and values of one text. Texts wait for a free slot in order of arrival. A text gets the free
-- slot whose contents have the longest common prefix with it, so only the new turn of a chat is read. If a slot in
-- use has a much longer common prefix, such as an instruction that many chats share, its contents are copied to the
-- free slot. A step reads at most `chunk` ids of each slot, so a long prompt delays the remaining texts little.
--
-- Speculative decoding (Leviathan et al. 2023): a draft model guesses the next ids, and one pass of the model checks
-- them. Each position of a text has one random number, which both models use. A guess is accepted exactly if it is
-- the id that the model chooses, so the draft model does not change the text.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local random = require "rille.base.random"
local new_reader = require "rille.models.generation.reader"
local new_text = require "rille.models.generation.text"
local prompts = require "rille.models.generation.prompts"
local sampling = require "rille.models.generation.sampling"

local Scheduler = {}
Scheduler.__index = Scheduler

local who = "scheduler"

local WORTH <const> = 64 -- minimum length of a common prefix, in ids, for which a slot is copied

-- ---- creating a scheduler ----

-- Creates a scheduler. o: slots, length, chunk, draft, draft_tokens. where: layout of the ids. caller: name in messages.
local function make(model, o, where, caller)
  local self = setmetatable({model = model, length = o.length, texts = {}, waiting = {}, running = 0}, Scheduler)
  self.slots = o.slots
  self.reader = new_reader(model, o.slots, o.length, where, o.chunk)
  if o.draft then
    check.that(o.draft.config.length >= o.length, "%s: the draft must have at least %d positions, found %d", caller, o.length,
      o.draft.config.length)
    self.draft = new_reader(o.draft, o.slots, o.length, rille.parallel.input(o.draft), o.chunk)
    self.guesses = o.draft_tokens
  end
  return self
end

-- Implements m:scheduler{...}.
local function new(model, given)
  local o = check.options(who, given, {slots = 8, length = model.config.length, chunk = 64, draft = check.none, draft_tokens = 4})
  sampling.check_needs(who, given)
  for _, name in ipairs{"slots", "length", "chunk", "draft_tokens"} do check.count(who, name, o[name]) end
  check.that(o.length <= model.config.length, "%s: length must be at most the model's %d positions, found %d", who,
    model.config.length, o.length)
  sampling.check_draft(who, model, o.draft)
  return make(model, o, rille.parallel.input(model), who)
end

-- Closes a scheduler: returns its compiled steps to the models' caches, for the next scheduler.
local function close(self)
  self.reader:close()
  if self.draft then self.draft:close() end
end

-- ---- adding, cancelling and removing texts ----

local function enqueue(self, text)
  if text.o.max_new_tokens == 0 then
    text:finish("length")
  else
    self.waiting[#self.waiting + 1] = text
  end
  return text
end

-- Adds a text. ids: list of ids; given: options of m:generate. Returns the text (text.lua).
function Scheduler:add(ids, given)
  local vocab = self.model.config.vocab
  local rows = prompts.read(who, {ids}, vocab)
  local o = sampling.read(who, given, vocab)
  sampling.check_length(who, #rows[1], o, self.length)
  return enqueue(self, new_text(rows[1], o, random.integers(o.seed)))
end

-- Frees the slots of ended texts.
local function clear(self)
  for s = 1, self.slots do
    local text = self.texts[s]
    if text and text.ended then self.texts[s], self.running = nil, self.running - 1 end
  end
end

-- Ends a text at once, and frees its slot.
function Scheduler:cancel(text)
  check.that(type(text) == "table" and text.finish, "scheduler:cancel: expected a result of s:add, found %s", check.shown(text))
  for i, other in ipairs(self.waiting) do
    if other == text then table.remove(self.waiting, i) break end
  end
  if not text.ended then text:finish("cancelled") end
  clear(self)
end

-- Clears the cached keys and values of all slots. Must be called after a change of the model's weights.
function Scheduler:forget()
  self.reader:forget()
  if self.draft then self.draft:forget() end
end

-- Returns the slot whose contents have the longest common prefix with ids, and the length of this prefix; nil: no
-- slot has one. free: considers only free slots.
local function best_slot(self, ids, free)
  local best, most
  for s = 1, self.slots do
    local n = not (free and self.texts[s]) and self.reader:common(s, ids)
    if n and (not best or n > most) then best, most = s, n end
  end
  return best, most
end

-- Prepares a free slot for a text: keeps the common prefix, without the text's last id, whose logits are needed.
-- Returns the length of the prefix.
local function prepare(reader, s, ids)
  local n = math.min(reader:common(s, ids), #ids - 1)
  reader:cut(s, n)
  return n
end

-- Assigns waiting texts to free slots.
local function admit(self)
  if not self.waiting[1] then return end
  self.reader:refresh()
  if self.draft then self.draft:refresh() end
  while self.waiting[1] do
    local ids = self.waiting[1].ids
    local s, n = best_slot(self, ids, true)
    if not s then return end
    local other, most = best_slot(self, ids)
    local text = table.remove(self.waiting, 1)
    self.texts[s], self.running = text, self.running + 1
    for _, reader in ipairs{self.reader, self.draft} do
      if most - n >= WORTH then reader:copy(other, s) end
      local reused = prepare(reader, s, ids)
      text.reused = text.reused or reused
    end
  end
end

-- ---- running one step for all texts ----

-- Runs the draft model on the unread ids of some slots. Returns the next id of each slot, which the draft model
-- chooses.
local function draft_next(self, guessing)
  local reader, result = self.draft, {}
  while next(guessing) do
    local feeds, left = {}, {}
    for s, text in pairs(guessing) do
      local n = #text.ids - #reader.known[s]
      local count = math.min(n, reader.chunk)
      feeds[s] = {text = text, count = count, scored = count == n and 1 or 0}
      if count < n then left[s] = text end
    end
    local out = reader:pass(feeds, 1)
    for s, feed in pairs(feeds) do result[s] = feed.scored == 1 and out.ids[s][1] or result[s] end
    guessing = left
  end
  return result
end

-- Lets the draft model guess the next ids of the texts that have not ended, and appends the guesses to the texts.
-- Returns the guesses, by slot.
local function guess(self)
  local guesses, going = {}, {}
  for s, text in pairs(self.texts) do
    local room = text.o.max_new_tokens - (#text.ids - text.prompt) - 1
    if #self.reader.known[s] == #text.ids - 1 and room > 0 then going[s], guesses[s] = text, {} end
  end
  for _ = 1, self.guesses do
    for s, id in pairs(draft_next(self, going)) do
      local text, list = going[s], guesses[s]
      if id < 0 or #list >= text.o.max_new_tokens - (#text.ids - #list - text.prompt) - 1 then
        going[s] = nil
      else
        list[#list + 1], text.ids[#text.ids + 1] = id, id
      end
    end
  end
  return guesses
end

local function note_logprobs(text, out, row)
  if not text.logprobs then return end
  text.logprobs[#text.logprobs + 1] = out.logprobs[row][1]
  local top = {}
  for i = 1, text.o.logprobs do
    if out.top_ids[row][i] then top[i] = {id = out.top_ids[row][i], logprob = out.top[row][i]} end
  end
  text.top_logprobs[#text.top_logprobs + 1] = top
end

-- Accepts the chosen ids of a slot, up to and including the first id that differs from its guess.
local function accept(self, s, feed, out, scored, guesses)
  local text, first = feed.text, s * scored - feed.scored
  text.piece = ""
  local piece = ""
  for v = 1, feed.scored do
    local id = out.ids[first + v][1]
    if id < 0 then
      text:finish("error")
    else
      note_logprobs(text, out, first + v)
      text:accept(id)
    end
    piece = piece .. text.piece
    if text.ended or id ~= guesses[v] then break end
  end
  text.piece = piece
  self.reader:cut(s, #text.ids - 1)
  if self.draft then self.draft:cut(s, #text.ids - 1) end
end

-- Returns what each slot reads in the next pass, a table of feeds by slot, {text =, count =, scored =} (Reader:pass);
-- and the greatest feed.scored.
local function feeds_of(self, guesses)
  local feeds, scored = {}, 1
  for s, text in pairs(self.texts) do
    local n, checked = #text.ids - #self.reader.known[s], guesses[s] and #guesses[s] + 1 or 1
    local count = math.min(n, math.max(self.reader.chunk, checked))
    feeds[s] = {text = text, count = count, scored = count == n and checked or 0}
    scored = math.max(scored, feeds[s].scored)
  end
  return feeds, scored
end

-- Reads some ids of each slot. Returns the texts that got new ids or have ended; an empty list: there are no texts.
-- whole: all texts are new, and one pass reads their complete prompts.
function Scheduler:step(whole)
  check.that(not whole or whole == true, "scheduler:step: expected no argument, found %s", check.shown(whole))
  self.reader:recover()
  if self.draft then self.draft:recover() end
  admit(self)
  if self.running == 0 then return {} end
  local guesses = self.draft and guess(self) or {}
  local feeds, scored = feeds_of(self, guesses)
  local out = self.reader:pass(feeds, scored, whole and {whole = true} or nil)
  local changed = {}
  for s = 1, self.slots do
    local feed = feeds[s]
    if feed and feed.scored > 0 then
      local own = guesses[s] or {}
      for _ = 1, #own do feed.text.ids[#feed.text.ids] = nil end
      accept(self, s, feed, out, scored, own)
      changed[#changed + 1] = feed.text
    end
  end
  clear(self)
  return changed
end

-- ---- generating texts to their ends ----

-- Calls on_token with a list that has, for each text, the new id; false: the text has no new id.
local function report(texts, known, on_token)
  local most = 0
  for r, text in ipairs(texts) do most = math.max(most, #text.ids - known[r]) end
  for i = 1, most do
    local list = {}
    for r, text in ipairs(texts) do list[r] = text.ids[known[r] + i] or false end
    on_token(list)
  end
  for r, text in ipairs(texts) do known[r] = #text.ids end
end

local function fail_on_error(name, texts)
  for r, text in ipairs(texts) do
    check.that(text.ended ~= "error", "%s: the logits after id %d of row %d are nan or inf", name, #text.ids - 1, r - 1)
  end
end

-- Runs steps until all texts have ended. name: prefix of messages; whole: see step().
local function finish(self, name, texts, on_token, whole)
  local known = {}
  for r, text in ipairs(texts) do known[r] = #text.ids end
  for _, text in ipairs(texts) do enqueue(self, text) end
  while self.running > 0 or self.waiting[1] do
    self:step(whole)
    whole = false
    fail_on_error(name, texts)
    if on_token then report(texts, known, on_token) end
  end
end

-- Generates like m:generate, but reads only the ids whose keys and values are in no slot.
function Scheduler:generate(ids, given) return require("rille.models.generation.generate")(self.model, ids, given, self) end

check.strict("scheduler", Scheduler, true)

return {new = new, make = make, finish = finish, close = close}
