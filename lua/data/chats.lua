-- chats.lua - conversations as rows of ids and labels, for instruction tuning.
--
--   local x, y = rille.data.chats("train.jsonl", {tokenizer = tok, length = 512})
--   for x, y in rille.data.loader{x, y, batch = 8, shuffle = true} do ... end
--
-- A line of the file is {"messages": [{"role": ..., "content": ...}, ...]} or {"prompt": text, "completion": text}. Only tokens
-- of answers (messages of the assistant, completions) are labels; all other labels are -100. y is x shifted by one token.
--
-- If the chat template has generation blocks, their texts are the answers, as in transformers. A tokenizer may join
-- characters of a prompt and an answer; such a token belongs to the answer. If a tokenizer changes characters, an answer
-- begins where the ids of the complete text first differ from the ids of the text before the answer.

local rille = require "rille"
local check = require "rille.base.check"
local json = require "rille.json"
local files = require "rille.data.table"

local WHO <const> = "data.chats"
local IGNORED <const> = -100

-- Returns the number of equal ids at the beginning of two lists.
local function common(a, b)
  local n = 0
  while a[n + 1] and a[n + 1] == b[n + 1] do n = n + 1 end
  return n
end

-- Returns the number of equal bytes at the beginning of two texts.
local function common_bytes(a, b)
  if b:sub(1, #a) == a then return #a end
  local n = 0
  while a:byte(n + 1) == b:byte(n + 1) do n = n + 1 end
  return n
end

-- Returns the ids of a prompt and its completion, and a list of flags: true for an id of the completion.
local function of_completion(example, o, where)
  for _, key in ipairs{"prompt", "completion"} do
    check.that(type(example[key]) == "string", "%s: %s must be a string, found %s", where, key, check.shown(example[key]))
  end
  local ids = o.tokenizer:encode(example.prompt .. example.completion, {add_special_tokens = true})
  local first, counts = common(o.tokenizer:encode(example.prompt, {add_special_tokens = true}), ids), {}
  if o.eos then ids[#ids + 1] = o.eos end
  for i = first + 1, #ids do counts[i] = true end
  return ids, counts
end

-- Returns the position of the last byte of each id's text; nil: the ids' texts do not join to the text, because the
-- tokenizer changes characters.
local function ends_of(tokenizer, ids, text)
  local ends, at = {}, 0
  for i, id in ipairs(ids) do
    local one = tokenizer:decode{id}
    if text:sub(at + 1, at + #one) ~= one then return nil end
    at = at + #one
    ends[i] = at
  end
  return at == #text and ends or nil
end

-- Marks the ids of an answer, bytes `from` to `to` of the text. ends: result of ends_of(). An id that contains a byte of the
-- answer belongs to the answer.
local function mark(tokenizer, text, ids, ends, counts, from, to)
  if not ends then
    for i = common(tokenizer:encode(text:sub(1, from - 1)), ids) + 1, common(tokenizer:encode(text:sub(1, to)), ids) do counts[i] = true end
    return
  end
  for i, last in ipairs(ends) do
    if last >= from and (ends[i - 1] or 0) < to then counts[i] = true end
  end
end

-- Returns the positions {first, last} of the answers in a conversation's text. chat(n, options): the text of n messages.
local function answers_of(messages, text, chat)
  local spans = {}
  for k, message in ipairs(messages) do
    if message.role == "assistant" then
      local before, through = chat(k - 1, {add_generation_prompt = true}), chat(k, {})
      spans[#spans + 1] = {common_bytes(before, text) + 1, common_bytes(through, text)}
    end
  end
  return spans
end

-- Returns the ids of a conversation, and a list of flags: true for an id of an answer.
local function of_messages(messages, o, where)
  check.that(type(messages) == "table" and #messages > 0, "%s: messages must be a list of messages, found %s", where, check.shown(messages))
  for _, message in ipairs(messages) do
    check.that(type(message) == "table", "%s: a message must be an object, found %s", where, check.shown(message))
  end
  local function chat(n, how)
    how.template = o.template
    return o.tokenizer:chat(table.move(messages, 1, n, 1, {}), how)
  end
  local text, answers = chat(#messages, {answers = true})
  local ids, counts = o.tokenizer:encode(text), {}
  local ends = ends_of(o.tokenizer, ids, text)
  for _, span in ipairs(#answers > 0 and answers or answers_of(messages, text, chat)) do
    mark(o.tokenizer, text, ids, ends, counts, span[1], span[2])
  end
  return ids, counts
end

-- Converts an example to ids {x} and labels {y}, with one entry per position; nil if no position has a label.
local function positions_of(example, o, where)
  check.that(type(example) == "table", "%s: expected an object with messages, or with prompt and completion, found %s", where, check.shown(example))
  local ids, counts
  if example.messages ~= nil then ids, counts = of_messages(example.messages, o, where) else ids, counts = of_completion(example, o, where) end
  local one = {x = {}, y = {}}
  for i = 1, math.min(#ids - 1, o.length) do
    one.x[i], one.y[i] = ids[i], counts[i + 1] and ids[i + 1] or IGNORED
    one.labelled = one.labelled or counts[i + 1]
  end
  return one.labelled and one or nil
end

-- Returns the examples, from a list or a file of JSON lines, that have a label.
local function read_examples(from, o)
  local list = {}
  if type(from) == "table" then
    for k, example in ipairs(from) do list[#list + 1] = positions_of(example, o, ("%s: example %d"):format(WHO, k)) end
  else
    local number = 0
    for line in (files.read(WHO, from) .. "\n"):gmatch("(.-)\r?\n") do
      number = number + 1
      local where = ("%s: %s: line %d"):format(WHO, from, number)
      if line:find("%S") then list[#list + 1] = positions_of(json.decode(line, where), o, where) end
    end
  end
  check.that(#list > 0, "%s: no example has a token of an answer within %d positions; raise length, or check the examples", WHO, o.length)
  return list
end

-- Packs examples into rows by best fit decreasing (Ding et al. 2024): the longest example first, each into the row with
-- the least space that suffices, of equal ones into the first. Returns a list of rows, lists of indices of examples.
local function packed(examples, length)
  local by_length, rows, with_space = {}, {}, {} -- length of an example -> indices; free positions of a row -> rows
  for k, one in ipairs(examples) do
    by_length[#one.x] = by_length[#one.x] or {}
    table.insert(by_length[#one.x], k)
  end
  for size = length, 1, -1 do
    for _, k in ipairs(by_length[size] or {}) do
      local space = size
      while space < length and not (with_space[space] and with_space[space][1]) do space = space + 1 end
      local row = space < length and table.remove(with_space[space], 1)
      if not row then
        row = {}
        rows[#rows + 1] = row
      end
      row[#row + 1] = k
      with_space[space - size] = with_space[space - size] or {}
      table.insert(with_space[space - size], row)
    end
  end
  return rows
end

-- Returns rows of ids, labels and document numbers. The number of a document is the index of its example.
local function rows_of(examples, o)
  local rows = {x = {}, y = {}, documents = {}}
  local list = o.pack and packed(examples, o.length)
  for r = 1, #(list or examples) do
    local row = {x = {}, y = {}, documents = {}}
    for _, k in ipairs(list and list[r] or {r}) do
      local one, at = examples[k], #row.x + 1
      table.move(one.x, 1, #one.x, at, row.x)
      table.move(one.y, 1, #one.y, at, row.y)
      for i = at, at + #one.x - 1 do row.documents[i] = k end
    end
    for i = #row.x + 1, o.length do row.x[i], row.y[i], row.documents[i] = o.pad, IGNORED, 0 end
    for name, all in pairs(rows) do all[r] = row[name] end
  end
  return rows
end

return function(from, given)
  local o = check.options(WHO, given, {tokenizer = check.none, length = check.none, pack = false, template = check.none,
    eos = check.none, pad = 0, placement = check.none, sbp = check.none})
  check.count(WHO, "length", o.length)
  check.flag(WHO, "pack", o.pack)
  check.whole(WHO, "pad", o.pad, 0)
  if o.eos ~= nil then check.whole(WHO, "eos", o.eos, 0) end
  check.that(type(o.tokenizer) == "userdata", "%s: tokenizer must be a rille.tokenizer, found %s", WHO, check.shown(o.tokenizer))
  check.that(type(from) == "string" or type(from) == "table", "%s: expected the name of a file or a list of examples, found %s", WHO, check.shown(from))
  local rows = rows_of(read_examples(from, o), o)
  local how = {dtype = "i64", placement = o.placement, sbp = o.sbp}
  local x, y = rille.tensor(rows.x, how), rille.tensor(rows.y, how)
  if not o.pack then return x, y end
  return x, y, rille.tensor(rows.documents, how)
end
