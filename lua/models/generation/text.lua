-- text.lua - one text that is being written: its ids, its options, its random numbers, and why it ended.
--
-- Fields for users: ids, prompt (number of ids of the prompt), ended (nil, "stop", "length", "cancelled" or "error"),
-- piece (text that the last id added; needs a tokenizer), logprobs and top_logprobs (lists, one entry per new id),
-- reused (number of the prompt's ids that were already in the slot). The settings for the next id depend only on the
-- ids before it. So the settings are the same whether these ids are written or only guessed.

local check = require "rille.base.check"
local random = require "rille.base.random"
local sampling = require "rille.models.generation.sampling"
local new_speaker = require "rille.models.generation.speaker"

local Text = {}
Text.__index = Text

-- Creates a text. ids: list of ids, which the text takes over; o: options of sampling.lua; mix: generator of 64-bit
-- integers.
local function new(ids, o, mix)
  local self = {ids = ids, prompt = #ids, o = o, draw = random.numbers(mix()), drawn = {}, piece = ""}
  if o.tokenizer then self.speaker = new_speaker(o.tokenizer, o.stop_texts) end
  if o.logprobs then self.logprobs, self.top_logprobs = {}, {} end
  return setmetatable(self, Text)
end

-- Returns the random number for the id after the first n ids. Each position has a separate number.
function Text:number_after(n)
  local k = n - self.prompt + 1
  for i = #self.drawn + 1, k do self.drawn[i] = self.draw() end
  return self.drawn[k]
end

-- ---- settings for choosing the next id ----

-- Adds the penalties of ids that the model has written; ids of the prompt do not count.
local function add_penalties(self, n, adds)
  local o, count = self.o, {}
  if o.presence_penalty == 0 and o.frequency_penalty == 0 then return end
  for i = self.prompt + 1, n do count[self.ids[i]] = (count[self.ids[i]] or 0) + 1 end
  for id, times in pairs(count) do adds[id] = -o.presence_penalty - o.frequency_penalty * times end
end

-- Bans each id that would complete a bad word: the last id of a bad word whose other ids are the last ids of the
-- text.
local function add_bad_words(self, n, adds)
  for _, word in ipairs(self.o.bad_words or {}) do
    local same = #word - 1 <= n
    for i = 1, #word - 1 do same = same and self.ids[n - #word + 1 + i] == word[i] end
    if same then adds[word[#word]] = -math.huge end
  end
end

local function repetitions(self, n)
  local penalty, list = self.o.repetition_penalty, {}
  if penalty == 1 then return nil end
  for i = 1, n do list[self.ids[i]] = penalty end
  return list
end

-- Returns a copy of the first n ids, which is passed to user functions.
function Text:copied(n) return table.move(self.ids, 1, n, 1, {}) end

-- Returns the ids that may follow: {ids = list, mask = (json_grammar.lua)}; nil: any id.
local function allowed(self, n)
  if self.o.grammar then return self.o.grammar:allowed(self, n) end
  local list = self.o.allowed and self.o.allowed(self:copied(n))
  if not list then return nil end
  check.that(type(list) == "table" and #list > 0, "generate: allowed must return a list of ids, or nil for all ids; found %s",
    type(list) == "table" and "an empty list" or check.shown(list))
  local ids = {}
  for i, id in ipairs(list) do ids[i] = sampling.check_id("generate", "an id that allowed returns", id, self.o.vocab) end
  return {ids = ids}
end

-- Returns the edits of logits for the id after the first n ids: tables id -> number (choose.lua), and the allowed ids.
function Text:edits(n)
  local adds = {}
  add_penalties(self, n, adds)
  add_bad_words(self, n, adds)
  if n - self.prompt < self.o.min_new_tokens then
    for id in pairs(self.o.stops) do adds[id] = -math.huge end
  end
  return {bias = self.o.logit_bias, repetition = repetitions(self, n), adds = next(adds) and adds, allowed = allowed(self, n)}
end

-- Returns true if the edits of logits may differ from one id to the next.
function Text:has_edits()
  local o = self.o
  return o.bad_words or o.allowed or o.grammar or o.logit_bias or o.min_new_tokens > 0 or o.repetition_penalty ~= 1 or o.presence_penalty ~= 0 or
    o.frequency_penalty ~= 0
end

-- ---- appending ids and ending the text ----

-- Appends an id. Ends the text if the id is a stop id, the new text contains a stop string or is complete JSON
-- (option response_format), or the text has its maximum length.
function Text:accept(id)
  self.ids[#self.ids + 1] = id
  local stop = self.o.stops[id]
  local n = #self.ids - self.prompt
  if self.speaker then
    self.piece = stop and "" or self.speaker:push(id)
    stop = stop or self.speaker.stopped
  end
  stop = stop or self.o.grammar and self.o.grammar:is_complete(self)
  if stop then self:finish("stop") elseif n >= self.o.max_new_tokens then self:finish("length") end
end

-- Ends the text, and adds withheld text to the last piece. why: value of the field `ended`.
function Text:finish(why)
  self.ended = why
  if self.speaker then self.piece = self.piece .. self.speaker:push(nil) end
end

return new
