-- chats.lua - conversations as rows of ids and labels, for instruction tuning.
--
--   local x, y = rille.data.chats("train.jsonl", {tokenizer = tok, length = 512})
--   for x, y in rille.data.loader{x, y, batch = 8, shuffle = true} do ... end
--
-- A line of the file is {"messages": [{"role": ..., "content": ...}, ...]} or {"prompt": text, "completion": text}. Only tokens
-- of answers (messages of the assistant, completions) are labels; all other labels are -100. y is x shifted by one token.
--
-- An answer begins where the ids of the whole text first differ from the ids of the text before the answer, because a
-- tokenizer may join characters of the prompt and the answer.

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

-- Returns the ids of a conversation, and a list of flags: true for an id of an answer.
local function of_messages(messages, o, where)
  check.that(type(messages) == "table" and #messages > 0, "%s: messages must be a list of messages, found %s", where, check.shown(messages))
  local function ids_of(n, prompts)
    local text = o.tokenizer:chat(table.move(messages, 1, n, 1, {}), {template = o.template, add_generation_prompt = prompts})
    return o.tokenizer:encode(text)
  end
  local ids, counts = ids_of(#messages, false), {}
  for k, message in ipairs(messages) do
    check.that(type(message) == "table", "%s: a message must be an object, found %s", where, check.shown(message))
    if message.role == "assistant" then
      for i = common(ids_of(k - 1, true), ids) + 1, common(ids_of(k, false), ids) do counts[i] = true end
    end
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

-- Returns rows of ids, labels and document numbers. With pack = true, an example is appended to the current row if it
-- fits there. Otherwise the example begins a new row.
local function rows_of(examples, o)
  local rows, row = {x = {}, y = {}, documents = {}}, nil
  for k, one in ipairs(examples) do
    if not row or not o.pack or #row.x + #one.x > o.length then
      row = {x = {}, y = {}, documents = {}}
      for name, list in pairs(rows) do list[#list + 1] = row[name] end
    end
    local at = #row.x + 1
    table.move(one.x, 1, #one.x, at, row.x)
    table.move(one.y, 1, #one.y, at, row.y)
    for i = at, at + #one.x - 1 do row.documents[i] = k end
  end
  for r, ids in ipairs(rows.x) do
    for i = #ids + 1, o.length do ids[i], rows.y[r][i], rows.documents[r][i] = o.pad, IGNORED, 0 end
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
