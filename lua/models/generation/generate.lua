-- generate.lua - model:generate(ids, {...}): extends prompts by one id per row and step.
--
-- The rows are texts of a scheduler (scheduler.lua) with a slot for each row. One pass reads the prompts; then a
-- compiled step runs for each id. Each row has its own random generator (seed, row), which draws one number per id.
-- The id is chosen whose interval of the cumulative distribution contains the number. So samples depend neither on
-- the layout nor on other rows.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local random = require "rille.base.random"
local beams = require "rille.models.generation.beams"
local prompts = require "rille.models.generation.prompts"
local new_text = require "rille.models.generation.text"
local sampling = require "rille.models.generation.sampling"
local scheduler_of = require "rille.models.generation.scheduler"

local who = "generate"

-- Options that generate has and sampling.lua does not.
local own = {on_token = check.none, n = 1, beams = check.none, length_penalty = 1, early_stopping = check.none, draft = check.none,
  draft_tokens = 4}

-- Returns the layout of the ids: the prompts' layout, but not sharded along a row.
local function place_of(model, ids)
  if layout.is_tensor(ids) then return {placement = ids.placement, sbp = (ids.sbp:gsub("S%(1[^)]*%)", "B"))} end
  return model:__input_layout()
end

local function check_beams(o, rows)
  if o.beams == nil then return end
  sampling.check_times(who, "beams", o.beams, rows)
  check.finite(who, "length_penalty", o.length_penalty)
  local early = o.early_stopping
  check.that(early == nil or type(early) == "boolean" or early == "never", "%s: early_stopping must be true, false or \"never\", found %s",
    who, check.shown(early))
  check.that(o.temperature == 0, "%s: beams need temperature = 0, found %s", who, check.shown(o.temperature))
  check.that(o.n <= o.beams, "%s: n must be at most beams = %d, found %d", who, o.beams, o.n)
  for _, name in ipairs{"draft", "on_token", "logprobs"} do
    check.that(o[name] == nil, "%s: the option %s cannot be used with beams", who, name)
  end
end

local function read_options(model, given, rows, longest, most)
  local o = sampling.read(who, given, model.config.vocab, own)
  sampling.check_times(who, "n", o.n, #rows)
  check.count(who, "draft_tokens", o.draft_tokens)
  check_beams(o, #rows)
  sampling.check_draft(who, model, o.draft)
  sampling.check_length(who, longest, o, most)
  return o
end

-- Returns the number of positions to reserve for a text of n ids: a power of two, at least 64 and at most `most`. So
-- texts of similar length share compiled steps (writer.lua).
local function room_for(n, most)
  local room = 64
  while room < n do room = 2 * room end
  return math.min(room, most)
end

-- Creates o.n texts for each row.
local function texts_of(rows, o)
  local mix, texts = random.integers(o.seed), {}
  for _, row in ipairs(rows) do
    for _ = 1, o.n do texts[#texts + 1] = new_text(table.move(row, 1, #row, 1, {}), o, mix) end
  end
  return texts
end

-- Generates the texts with a new scheduler.
local function write(model, texts, longest, o, where)
  local room = room_for(longest + o.max_new_tokens, model.config.length)
  local s = scheduler_of.make(model, {slots = #texts, length = room, chunk = room, draft = o.draft, draft_tokens = o.draft_tokens}, where, who)
  scheduler_of.finish(s, who, texts, o.on_token, true)
  scheduler_of.close(s)
end

-- Generates the texts with the given scheduler s. If an error is raised, cancels the texts, so that none stays in the
-- scheduler.
local function write_with(s, texts, o)
  local good, why = pcall(scheduler_of.finish, s, who, texts, o.on_token)
  for _, text in ipairs(texts) do s:cancel(text) end
  if not good then error(why, 0) end
end

-- Converts the rows to a tensor. A row that is shorter than the longest one is padded with its last id.
local function as_tensor(rows, ids, where)
  local longest = 0
  for _, row in ipairs(rows) do longest = math.max(longest, #row) end
  return rille.tensor(prompts.padded(rows, longest), {dtype = ids.dtype, placement = where.placement, sbp = where.sbp})
end

-- Returns the additional results that the options ask for, a table for each text; nil: none.
local function extras(texts, o)
  if not o.logprobs then return nil end
  local list = {}
  for r, text in ipairs(texts) do
    list[r] = {ended = text.ended, logprobs = text.logprobs, top_logprobs = text.top_logprobs}
  end
  return list
end

-- Implements m:generate(ids, given). scheduler: the scheduler to use; nil: a new one.
return function(model, ids, given, scheduler)
  if layout.is_tensor(ids) then
    model:check_ids(ids)
    check.that(ids.dtype ~= "u8" or model.config.vocab <= 256, "%s: the result has the prompts' dtype, and u8 cannot hold " ..
      "the %d ids of the model; use i32 or i64", who, model.config.vocab)
  end
  local rows, longest = prompts.read(who, ids, model.config.vocab)
  local o = read_options(model, given, rows, longest, scheduler and scheduler.length or model.config.length)
  local where, more = place_of(model, ids), nil
  for _, name in ipairs{"beams", "draft"} do
    check.that(not scheduler or o[name] == nil, "%s: the option %s is for m:generate, not for s:generate of a scheduler", who, name)
  end
  if o.beams then
    rows, more = beams(model, rows, o, room_for(longest + o.max_new_tokens, model.config.length), where)
  else
    local texts = texts_of(rows, o)
    if scheduler then
      write_with(scheduler, texts, o)
    elseif o.max_new_tokens > 0 then
      write(model, texts, longest, o, where)
    end
    for r, text in ipairs(texts) do rows[r] = text.ids end
    more = extras(texts, o)
  end
  rows = layout.is_tensor(ids) and as_tensor(rows, ids, where) or rows
  if more then return rows, more end
  return rows
end
