-- tools.lua - function calls of OpenAI's API: the tools of a request, and the calls in a model's answer.
--
-- A model writes calls in the format of its training. Four formats are read:
--   Hermes, Qwen   <tool_call>{"name": "f", "arguments": {}}</tool_call>, any number of calls after a text
--   Mistral        [TOOL_CALLS] [{"name": "f", "arguments": {}}], after a text
--   Mistral, new   [TOOL_CALLS]f[ARGS]{}, any number of calls after a text; [CALL_ID] and an id may follow the name
--   Llama 3.1      {"name": "f", "parameters": {}}, the complete answer
-- Text that is not a call of a tool of the request stays in the message. If tool_choice requires a call, the prompt ends
-- with the beginning of a call, and a JSON schema restricts the answer to the rest.

local values = require "rille.chat.values"

local tools = {}

local OPEN <const>, CLOSE <const>, LIST <const> = "<tool_call>", "</tool_call>", "[TOOL_CALLS]"
local ID <const>, ARGS <const> = "[CALL_ID]", "[ARGS]"
local MOST_CALLS <const> = 16 -- maximum number of calls of an answer that must be calls
local COMPACT <const> = {comma = ", ", colon = ": "} -- Python's json.dumps

local function parsed(text)
  local good, value = pcall(values.from_json, text, "")
  return good and value
end

-- Returns a dictionary of template values. ...: names and values.
local function dict(...)
  local d, list = values.dict(), {...}
  for i = 1, #list, 2 do values.put(d, list[i], list[i + 1]) end
  return d
end

-- Returns the names of a list of tools as a set; nil if the list is malformed. list: template values.
function tools.names(list)
  local names = {}
  if values.kind(list) ~= "list" then return nil end
  for _, tool in ipairs(list) do
    local fn = values.kind(tool) == "dict" and tool.of.type == "function" and tool.of["function"]
    if not fn or values.kind(fn) ~= "dict" or type(fn.of.name) ~= "string" then return nil end
    names[fn.of.name] = true
  end
  return names
end

-- Parses a JSON text. Returns the object in it as a template value, with its names in order; nil if the text is no
-- object.
function tools.object(text)
  local value = type(text) == "string" and parsed(text)
  return value and values.kind(value) == "dict" and value or nil
end

-- ---- finding calls of tools in an answer ----

local ncalls = 0 -- number of calls that this process has answered with

-- Returns the id of the next call: nine digits, because the templates of Mistral's models refuse all others. The first
-- digits depend on the time, so that a restarted server does not repeat ids.
local function next_id()
  ncalls = ncalls + 1
  return ("%03x%06x"):format(os.time() & 0xfff, ncalls & 0xffffff)
end

-- Converts the value of one call to {id =, name =, arguments = JSON text}; nil if the value is not a call of a known
-- tool.
local function call_of(value, names)
  if not value or values.kind(value) ~= "dict" or not names[value.of.name] then return nil end
  local given = value.of.arguments or value.of.parameters
  if given == nil then given = values.dict() end
  if values.kind(given) ~= "dict" then return nil end
  values.begin()
  return {id = next_id(), name = value.of.name, arguments = values.json(given, COMPACT)}
end

-- Converts a list of values to calls; nil if the list is empty or one of the values is not a call.
local function calls_of(list, names)
  local calls = {}
  for i, value in ipairs(list) do
    calls[i] = call_of(value, names)
    if not calls[i] then return nil end
  end
  return calls[1] and calls
end

-- Returns the values of the calls in the format of Hermes. The last call may lack its closing tag, because generation
-- may end at that tag.
local function hermes_values(text)
  local list, at = {}, 1
  while true do
    local _, open = text:find("^%s*" .. OPEN, at)
    if not open then break end
    local close, last = text:find(CLOSE, open, true)
    list[#list + 1] = parsed(text:sub(open + 1, (close or #text + 1) - 1)) or false
    at = (last or #text) + 1
  end
  return text:find("^%s*$", at) and list or {}
end

-- Returns the values of the calls in the new format of Mistral. text: the text after the first mark. A string of the
-- arguments may contain the mark, so the arguments end at the first mark that leaves a JSON text.
local function named_values(text)
  local list, at = {}, 1
  while at <= #text do
    local name, between, first = text:match("^%s*([^%[%s]+)%s*([^{]-)%[ARGS%]()", at)
    if not name or between ~= "" and between:sub(1, #ID) ~= ID then return {} end
    local stop, value, mark, last = first, nil, nil, nil
    repeat
      mark, last = text:find(LIST, stop, true)
      value, stop = parsed(text:sub(first, (mark or #text + 1) - 1)), (last or #text) + 1
    until value or not mark
    list[#list + 1] = value and dict("name", name, "arguments", value) or false
    at = stop
  end
  return list
end

-- Returns the values of the calls in one of the two formats of Mistral. text: the text after the first mark.
local function mistral_values(text)
  if text:find "^%s*[^%s%[{]" then return named_values(text) end
  local list = parsed(text) or {}
  return values.kind(list) == "list" and list or {list}
end

-- Returns the number of bytes of a text before its calls of tools. If the text is incomplete, its end may be the
-- beginning of a call; such an end does not count, either.
local function before_calls(text, final)
  if text:find "^%s*{" or not final and text:find "^%s*$" then return 0 end
  for _, mark in ipairs{OPEN, LIST} do
    local at = text:find(mark, 1, true)
    if at then return at - 1 end
  end
  for n = math.min(#text, #LIST - 1), final and #text + 1 or 1, -1 do
    local tail = text:sub(-n)
    if tail == OPEN:sub(1, n) or tail == LIST:sub(1, n) then return #text - n end
  end
  return #text
end

-- Splits a model's answer. Returns the message's text, and the list of calls or nil. final: the answer is complete;
-- otherwise returns the part of the text that certainly belongs to the message.
function tools.split(text, names, final)
  local n = before_calls(text, final)
  if not final or n == #text then return text:sub(1, n) end
  local rest, list = text:sub(n + 1), nil
  if rest:sub(1, #LIST) == LIST then
    list = mistral_values(rest:sub(#LIST + 1))
  else
    list = rest:find("^%s*{") and {parsed(rest)} or hermes_values(rest)
  end
  local calls = calls_of(list, names)
  if not calls then return text end
  return text:sub(1, n), calls
end

-- Returns the text of the ids first to final of a list. marks: id -> text, for special tokens that are part of the
-- text.
local function decoded(tokenizer, ids, first, final, marks)
  local out, from = {}, first
  for i = first, final + 1 do
    local mark = i > final and "" or marks[ids[i]]
    if mark then
      out[#out + 1] = tokenizer:decode(table.move(ids, from, i - 1, 1, {}), {skip_special_tokens = true}) .. mark
      from = i + 1
    end
  end
  return table.concat(out)
end

-- Returns the text of an entry, one text of the answer. Adds the marks of the calls of Mistral's models: the
-- scheduler's text lacks the marks, because they are usually special tokens.
local function marked_text(call, entry)
  local text, marks = entry.text, call.tool_marks
  local last = #text.ids - (text.ended == "stop" and text.o.stops[text.ids[#text.ids]] and 1 or 0)
  for i = entry.mark_at or entry.scanned or text.prompt + 1, last do
    if marks[text.ids[i]] == LIST then
      entry.mark_at = i
      return decoded(call.tokenizer, text.ids, text.prompt + 1, text.ended and last or i, marks)
    end
  end
  entry.scanned = last + 1
  return entry.said
end

-- Sets the next piece of the entry's message. After the end of the text, also sets its calls of tools and the
-- complete message.
function tools.read_answer(call, entry)
  local content
  local text = call.tool_prefix and call.tool_prefix .. entry.said or marked_text(call, entry)
  content, entry.calls = tools.split(text, call.tool_names, entry.text.ended)
  entry.piece = content:sub(#entry.shown + 1)
  entry.shown = entry.shown .. entry.piece
end

local function id_of(tokenizer, text)
  local ids = tokenizer:encode(text)
  return #ids == 1 and ids[1] or nil
end

-- Returns the tokens with which Mistral's models mark the parts of calls: id -> text.
function tools.marks(tokenizer)
  local marks = {}
  for _, mark in ipairs{LIST, ID, ARGS} do
    local id = id_of(tokenizer, mark)
    if id then marks[id] = mark end
  end
  return marks
end

-- Returns a value of the option bad_words that bans the tokens with which calls begin.
function tools.bans(tokenizer)
  local bans = {}
  for _, mark in ipairs{OPEN, LIST} do
    local id = id_of(tokenizer, mark)
    if id then bans[#bans + 1] = {id} end
  end
  return bans
end

-- ---- forcing an answer to consist of calls ----

-- Formats in which models write calls of tools. before: text between the prompt and the JSON text of the calls; word:
-- the name of the arguments; list: true if the JSON text is an array of calls; named: true if a single call is its name
-- and arguments.
local hermes, llama = {before = OPEN .. "\n", word = "arguments"}, {before = "", word = "parameters"}
local mistral = {before = LIST, word = "arguments", list = true}
local named = {before = LIST, word = "arguments", list = true, named = true}

-- Returns the format in which the chat template writes a call; that of Llama if the format is unknown.
function tools.format(tokenizer)
  local call = {id = "123456789", type = "function", ["function"] = {name = "f", arguments = values.dict()}}
  local good, text = pcall(tokenizer.chat, tokenizer, {{role = "user", content = "x"}, {role = "assistant", content = "", tool_calls = {call}}})
  if good and text:find(OPEN, 1, true) then return hermes end
  if not good or not text:find(LIST, 1, true) then return llama end
  return text:find(ARGS, 1, true) and named or mistral
end

-- Returns the schema of a function's arguments.
function tools.parameters(fn)
  local own = fn.of.parameters
  if own == nil or values.kind(own) == "none" or values.kind(own) == "dict" and #own.keys == 0 then return dict("type", "object") end
  return own
end

-- Returns the schema of an answer that consists of calls, and the text before it. list: functions that the answer may
-- call; one: a single call.
function tools.schema(list, format, one)
  if format.named and #list == 1 then return tools.parameters(list[1]), LIST .. list[1].of.name .. ARGS end
  local any = values.list{}
  for i, fn in ipairs(list) do
    any[i] = dict("type", "object", "properties", dict("name", dict("const", fn.of.name), format.word, tools.parameters(fn)),
      "required", values.list{"name", format.word}, "additionalProperties", false)
  end
  local call = dict("anyOf", any)
  if not format.list then return call, format.before end
  return dict("type", "array", "items", call, "minItems", 1, "maxItems", one and 1 or MOST_CALLS), format.before
end

return tools
