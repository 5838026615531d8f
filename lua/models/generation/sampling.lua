-- sampling.lua - reads the sampling options, which m:generate and m:scheduler share.

local rille = require "rille"
local check = require "rille.base.check"
local values = require "rille.chat.values"

local sampling = {}

-- Temperatures below COLD are treated as 0 (greedy). At these temperatures the likeliest id is certain, because any
-- two different f32 logits are far enough apart; and 1 / temperature may exceed f32. A top_p below COLD is also
-- greedy.
local COLD = 1e-30

local MOST_LOGPROBS = 20

sampling.defaults = {max_new_tokens = 20, min_new_tokens = 0, temperature = check.none, top_k = check.none, top_p = check.none,
  min_p = check.none, typical_p = check.none, repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0,
  logit_bias = check.none, bad_words = check.none, allowed = check.none, processor = check.none, seed = check.none,
  stop = check.none, tokenizer = check.none, logprobs = check.none, response_format = check.none}

function sampling.check_id(who, what, id, vocab)
  check.whole(who, what, id, 0)
  check.that(id < vocab, "%s: %s must be below %d, the number of ids of the model, found %s", who, what, vocab, check.shown(id))
  return math.tointeger(id)
end

-- Returns the set of stop ids and the list of stop strings, from an id, a string, a list of ids and strings, or nil.
-- An id outside the vocabulary is an error, because it would never stop a text.
local function read_stops(who, o, vocab)
  local list, stops, texts, n = type(o.stop) == "table" and o.stop or {o.stop}, {}, {}, 0
  for i = 1, #list do
    if type(list[i]) == "string" then
      check.that(o.tokenizer, "%s: a stop id must be an integer, found %s; stop strings need the option tokenizer", who,
        check.quoted(list[i]))
      check.that(list[i] ~= "", "%s: a stop string must not be empty", who)
      texts[#texts + 1] = list[i]
    else
      stops[sampling.check_id(who, "a stop id", list[i], vocab)] = true
    end
  end
  for _ in pairs(list) do n = n + 1 end
  check.that(n == #list,
    "%s: stop must be an id or a list of ids; found a table with the keys %s", who, table.concat(check.sorted_keys(list), ", "))
  return stops, texts
end

local function read_share(who, name, o)
  if o[name] == nil then return end
  check.number(who, name, o[name], 0)
  check.that(o[name] > 0 and o[name] <= 1, "%s: %s must be above 0 and at most 1, found %s", who, name, check.shown(o[name]))
  if o[name] == 1 then o[name] = nil end
end

-- Reads the options that filter probabilities (top_k, top_p and the like).
local function read_filters(who, o)
  if o.top_k ~= nil then check.count(who, "top_k", o.top_k) end
  read_share(who, "top_p", o)
  read_share(who, "typical_p", o)
  if o.min_p ~= nil then check.share(who, "min_p", o.min_p) end
  if o.min_p == 0 then o.min_p = nil end
  if o.top_p and o.top_p < COLD then o.temperature = 0 end
end

local function read_bias(who, bias, vocab)
  if bias == nil then return nil end
  check.that(type(bias) == "table", "%s: logit_bias must be a table {[id] = number}, found %s", who, check.shown(bias))
  local copy = {}
  for id, value in pairs(bias) do copy[sampling.check_id(who, "an id of logit_bias", id, vocab)] = check.finite(who, "logit_bias", value) end
  return next(copy) and copy
end

-- Returns the sequences of ids that must not occur in a result.
local function read_bad_words(who, list, vocab)
  if list == nil then return nil end
  check.that(type(list) == "table", "%s: bad_words must be a list of lists of ids, found %s", who, check.shown(list))
  for i, word in ipairs(list) do
    check.that(type(word) == "table" and #word > 0, "%s: bad_words must be a list of lists of ids, found %s as entry %d", who,
      check.shown(word), i)
    for _, id in ipairs(word) do sampling.check_id(who, "an id of bad_words", id, vocab) end
  end
  return list
end

-- Checks the options whose values are objects or functions.
local function check_objects(who, o, vocab)
  for _, name in ipairs{"allowed", "processor", "on_token"} do
    if o[name] ~= nil then check.fn(who, name, o[name]) end
  end
  o.vocab = vocab
  check.that(o.tokenizer == nil or rille._class_text(o.tokenizer) == "a tokenizer" or type(o.tokenizer) == "table",
    "%s: tokenizer must be a tokenizer of rille.tokenizer, found %s", who, check.shown(o.tokenizer))
end

-- Returns the schema of a response_format of the type json_schema, as a template value.
local function schema_of(who, f)
  local given = type(f.json_schema) == "table" and f.json_schema.schema
  check.that(type(given) == "table" or type(given) == "string",
    '%s: response_format must be {type = "json_schema", json_schema = {schema = table or JSON text}}, found the schema %s', who, check.shown(given))
  local good, schema = check.try(type(given) == "string" and values.from_json or values.from_lua, given, type(given) == "string" and "schema" or nil)
  check.that(good, "%s: response_format: schema: %s", who, type(schema) == "table" and schema.text or tostring(schema))
  return schema
end

-- Reads the option response_format, which restricts the text to JSON.
local function read_format(who, o)
  local f = o.response_format
  if f == nil then return end
  local kind = type(f) == "table" and f.type
  for name in pairs(kind and f or {}) do
    if name ~= "type" and not (kind == "json_schema" and name == "json_schema") then kind = nil end
  end
  check.that(kind == "json_object" or kind == "json_schema",
    '%s: response_format must be {type = "json_object"} or {type = "json_schema", json_schema = {schema =}}, found %s', who, type(f) == "table" and check.quoted(f.type) or check.shown(f))
  check.that(o.allowed == nil and o.beams == nil and o.min_new_tokens == 0,
    "%s: response_format cannot be combined with the options allowed, beams and min_new_tokens", who)
  o.grammar = require "rille.models.generation.json_grammar"(o.tokenizer, o.vocab, kind == "json_schema" and schema_of(who, f) or nil)
end

local function read_penalties(who, o)
  check.positive(who, "repetition_penalty", o.repetition_penalty)
  check.finite(who, "presence_penalty", o.presence_penalty)
  check.finite(who, "frequency_penalty", o.frequency_penalty)
end

local function read_counts(who, o)
  check.whole(who, "max_new_tokens", o.max_new_tokens, 0)
  check.whole(who, "min_new_tokens", o.min_new_tokens, 0)
  check.that(o.min_new_tokens <= o.max_new_tokens, "%s: min_new_tokens must be at most max_new_tokens, %d; found %d", who,
    o.max_new_tokens, o.min_new_tokens)
  if o.logprobs == nil then return end
  check.whole(who, "logprobs", o.logprobs, 0)
  check.that(o.logprobs <= MOST_LOGPROBS, "%s: logprobs must be at most %d, found %s", who, MOST_LOGPROBS, check.shown(o.logprobs))
end

-- Pairs {option, the option that it needs}: without the second option, the first has no effect.
local needs = {{"response_format", "tokenizer"}, {"draft_tokens", "draft"}, {"early_stopping", "beams"}, {"length_penalty", "beams"}, {"min_new_tokens", "stop"}}

-- Fails if an option is given without the option that it needs to have an effect.
function sampling.check_needs(who, given)
  for _, row in ipairs(needs) do
    check.that(not given or given[row[1]] == nil or given[row[2]] ~= nil, "%s: the option %s needs the option %s", who, row[1], row[2])
  end
end

-- Checks options for a model with `vocab` ids. more: further option names with defaults. Adds stops, stop_texts and a
-- seed.
function sampling.read(who, given, vocab, more)
  local known = {}
  for _, defaults in ipairs{sampling.defaults, more or {}} do
    for name, value in pairs(defaults) do known[name] = value end
  end
  local o = check.options(who, given, known)
  sampling.check_needs(who, given)
  if o.temperature == nil then o.temperature = o.beams and 0 or 1 end
  if check.number(who, "temperature", o.temperature, 0) < COLD then o.temperature = 0 end
  read_counts(who, o)
  read_filters(who, o)
  read_penalties(who, o)
  o.logit_bias, o.bad_words = read_bias(who, o.logit_bias, vocab), read_bad_words(who, o.bad_words, vocab)
  check_objects(who, o, vocab)
  read_format(who, o)
  o.stops, o.stop_texts = read_stops(who, o, vocab)
  if o.seed == nil then o.seed = rille.randint(0, 1 << 53, {1}):item() end
  check.integer(who, "seed", o.seed)
  return o
end

-- Checks that a prompt of n ids and its continuation fit into `most` positions.
function sampling.check_length(name, n, o, most)
  check.that(o.max_new_tokens <= most - n, -- not max_new_tokens + n, which could overflow
    "%s: a prompt of %d ids and %d new ids exceed the model's %d positions; %s", name, n, o.max_new_tokens,
    most, n < most and ("at most %d new ids fit"):format(most - n) or "a shorter prompt would do")
end

local MOST_TEXTS = 65536

-- Checks the number of texts that one call generates: `times` for each of `rows` prompts. name: the option that sets
-- `times`, for messages.
function sampling.check_times(who, name, times, rows)
  local most = MOST_TEXTS // math.max(rows, 1)
  check.count(who, name, times)
  check.that(times <= most, "%s: a call generates at most %d texts, so %s must be at most %d for %d prompts; found %d", who, MOST_TEXTS,
    name, most, rows, times)
end

function sampling.check_draft(who, model, draft)
  if draft == nil then return end
  check.that(type(draft) == "table" and draft.generate, "%s: draft must be a language model, found %s", who, check.shown(draft))
  check.that(draft.config.vocab == model.config.vocab, "%s: the draft must have the model's %d ids, found %d", who, model.config.vocab,
    draft.config.vocab)
end

return sampling
