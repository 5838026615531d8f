-- fields.lua - reads the body of a request of OpenAI's API, and converts its fields to options of sampling.lua.
--
-- A field that would change the answer but is not supported is an error, and so is an unknown field. Fields that only
-- label a request are ignored. Errors are tables {status =, message =, param =}.

local json = require "rille.json"
local schemas = require "rille.models.generation.json_schema"
local tools = require "rille.serve.tools"
local values = require "rille.chat.values"

local fields = {}

local MOST_TEXTS <const> = 64 -- maximum number of texts of a request
local MOST_STOPS <const> = 16

function fields.fail(status, param, format, ...) error({status = status, param = param, message = format:format(...)}, 0) end

local function that(good, param, format, ...)
  if not good then fields.fail(400, param, format, ...) end
end

local function shown(v)
  if type(v) == "string" then return #v <= 40 and ("%q"):format(v) or ("a string of %d bytes"):format(#v) end
  if v == json.null then return "null" end
  return type(v) == "table" and (getmetatable(v) and "an array" or "an object") or tostring(v)
end

local function is_list(v) return type(v) == "table" and getmetatable(v) ~= nil and v ~= json.null end
local function is_object(v) return type(v) == "table" and getmetatable(v) == nil end

-- Checks an integer. what: name for messages, if v is only a part of the field.
local function integer(name, v, least, most, what)
  local whole = type(v) == "number" and math.tointeger(v)
  that(whole and whole >= least and whole <= most, name, "%s must be an integer from %d to %d, found %s", what or name, least, most, shown(v))
  return whole
end

local function number(name, v, least, most)
  that(type(v) == "number" and v >= least and v <= most, name, "%s must be a number from %g to %g, found %s", name, least, most, shown(v))
  return v
end

local function flag(name, v)
  that(type(v) == "boolean", name, "%s must be true or false, found %s", name, shown(v))
  return v
end

-- ---- reading the fields that completions and chats share ----

local function to_number(least, most)
  return function(call, name, v) call.o[name] = number(name, v, least, most) end
end

local function ignored() end

-- Returns a reader for a field that must have this value.
local function only(value)
  return function(_, name, v) that(v == value, name, "%s is not supported; expected %s", name, tostring(value)) end
end

local function read_tokens(call, name, v) call.o.max_new_tokens = integer(name, v, 0, 1 << 31) end

local function read_stop(call, name, v)
  local list = is_list(v) and v or {v}
  that(#list <= MOST_STOPS, name, "stop must have at most %d strings, found %d", MOST_STOPS, #list)
  for _, text in ipairs(list) do
    that(type(text) == "string" and text ~= "", name, "stop must be a string that is not empty, or a list of these; found %s", shown(text))
    table.insert(call.o.stop, text)
  end
end

local function read_stop_ids(call, name, v)
  that(is_list(v), name, "stop_token_ids must be a list of ids, found %s", shown(v))
  for _, id in ipairs(v) do table.insert(call.o.stop, integer(name, id, 0, call.vocab - 1)) end
end

local function read_bias(call, name, v)
  that(is_object(v) or is_list(v) and #v == 0, name, "logit_bias must be an object {\"id\": number}, found %s", shown(v))
  local bias = {}
  for key, value in pairs(v) do
    bias[integer(name, math.tointeger(tonumber(key)) or key, 0, call.vocab - 1, "an id of logit_bias")] = number(name, value, -100, 100)
  end
  call.o.logit_bias = bias
end

local function read_stream_options(call, name, v)
  that(is_object(v), name, "stream_options must be an object, found %s", shown(v))
  for key, value in pairs(v) do
    that(key == "include_usage" or key == "include_obfuscation", name, "unknown field stream_options.%s", key)
    if key == "include_usage" then call.usage = flag("stream_options.include_usage", value) end
  end
end

local common = {
  temperature = to_number(0, 2), top_p = to_number(0, 1), min_p = to_number(0, 1), typical_p = to_number(0, 1),
  presence_penalty = to_number(-2, 2), frequency_penalty = to_number(-2, 2), repetition_penalty = to_number(0.01, 100),
  max_tokens = read_tokens, stop = read_stop, stop_token_ids = read_stop_ids, logit_bias = read_bias,
  stream_options = read_stream_options,
  top_k = function(call, name, v)
    v = integer(name, v, -1, 1 << 31)
    if v > 0 then call.o.top_k = v end
  end,
  min_tokens = function(call, name, v) call.o.min_new_tokens = integer(name, v, 0, 1 << 31) end,
  seed = function(call, name, v) call.o.seed = integer(name, v, math.mininteger, math.maxinteger) end,
  n = function(call, name, v) call.n = integer(name, v, 1, MOST_TEXTS) end,
  stream = function(call, name, v) call.stream = flag(name, v) end,
  ignore_eos = function(call, name, v) call.ignore_eos = flag(name, v) end,
  model = function(call, name, v)
    that(type(v) == "string", name, "model must be a string, found %s", shown(v))
    if v ~= call.model then fields.fail(404, name, "unknown model %s; expected \"%s\"", shown(v), call.model) end
  end,
  user = ignored, store = ignored, metadata = ignored, service_tier = ignored, safety_identifier = ignored, prompt_cache_key = ignored,
}

-- ---- reading prompts and messages ----

local function encoded(call, text) return call.tokenizer:encode(text, {add_special_tokens = true}) end

local function id_list(call, list)
  local ids = {}
  for i, id in ipairs(list) do ids[i] = integer("prompt", id, 0, call.vocab - 1, "an id of prompt") end
  return ids
end

-- Reads a prompt: a string, a list of ids, or a list of strings or of lists of ids.
local function read_prompt(call, name, v)
  local list = is_list(v) and type(v[1]) ~= "number" and v or {v}
  that(#list > 0 and #list <= MOST_TEXTS, name, "prompt must be a string, or a list of 1 to %d strings; found %d", MOST_TEXTS, #list)
  for i, one in ipairs(list) do
    that(type(one) == "string" or is_list(one), name, "prompt must be a string, a list of ids, or a list of these; found %s", shown(one))
    call.prompts[i] = type(one) == "string" and encoded(call, one) or id_list(call, one)
    that(#call.prompts[i] > 0, name, "prompt must have at least one id, found an empty one")
  end
end

-- Returns the text of a message, whose content is a string or a list of text parts.
local function content_of(v, i)
  if type(v) == "string" then return v end
  that(is_list(v), "messages", "messages[%d].content must be a string or a list of parts, found %s", i, shown(v))
  local texts = {}
  for k, part in ipairs(v) do
    that(is_object(part) and part.type == "text" and type(part.text) == "string", "messages",
      "messages[%d].content[%d] must be {\"type\": \"text\", \"text\": string}", i, k - 1)
    texts[k] = part.text
  end
  return table.concat(texts)
end

-- Converts a part of the request's body to a value of chat templates. The names of its objects keep their order in
-- the body.
local function template_value(call, name, v)
  local good, value = pcall(values.from_lua, v, call.order)
  that(good, name, "%s: %s", name, type(value) == "table" and value.text or tostring(value))
  return value
end

-- Returns the calls of an assistant's message. Templates expect the arguments as an object, not as JSON text.
local function read_calls(call, v, i)
  local expected = '{"id": string, "type": "function", "function": {"name": string, "arguments": string}}; arguments must be the JSON text of an object'
  that(is_list(v) and #v > 0, "messages", "messages[%d].tool_calls must be a list that is not empty, found %s", i, shown(v))
  for k, one in ipairs(v) do
    local fn = is_object(one) and one.type == "function" and is_object(one["function"]) and one["function"]
    that(fn and type(one.id) == "string" and type(fn.name) == "string" and tools.object(fn.arguments), "messages",
      "messages[%d].tool_calls[%d] must be %s", i, k - 1, expected)
  end
  local list = template_value(call, "messages", v)
  for _, one in ipairs(list) do
    local fn = one.of["function"]
    fn.of.arguments = tools.object(fn.of.arguments)
  end
  return list
end

-- Returns a message in the form that chat templates expect.
local function read_message(call, m, i)
  that(is_object(m) and type(m.role) == "string", "messages", "messages[%d] must be {\"role\": string, \"content\": string}", i)
  local message = {role = m.role}
  if m.role == "assistant" and m.tool_calls and m.tool_calls ~= json.null then message.tool_calls = read_calls(call, m.tool_calls, i) end
  if m.role == "tool" then
    that(type(m.tool_call_id) == "string", "messages", "messages[%d].tool_call_id must be a string, found %s", i, shown(m.tool_call_id))
    message.tool_call_id, message.name = m.tool_call_id, type(m.name) == "string" and m.name or nil
  end
  if not message.tool_calls or m.content and m.content ~= json.null then message.content = content_of(m.content, i) end
  return message
end

-- Returns the ids of a conversation, ready for the assistant to continue. Without a chat template, the text has one
-- line "role: text" per message.
local function chat_ids(call, messages)
  local tokenizer, lines = call.tokenizer, {}
  local good, out = pcall(function() return tokenizer:chat(messages, {add_generation_prompt = true, tools = call.tools}) end)
  if good then return tokenizer:encode(out .. (call.tool_prefix or "")) end
  local why = tostring(out):gsub("^[^ ]*:%d+: ", "")
  that(why:find("has no chat template", 1, true) or why:find("has no 'chat'", 1, true), "messages", "messages: %s", why)
  that(not call.tools, "tools", "tools: the model has no chat template; send the request without tools")
  for i, m in ipairs(messages) do
    that(not m.tool_calls, "messages", "messages[%d].tool_calls: the model has no chat template; send the message without tool_calls", i - 1)
    lines[i] = ("%s: %s\n"):format(m.role, m.content)
  end
  return encoded(call, table.concat(lines) .. "assistant:")
end

local function read_messages(call, name, v)
  that(is_list(v) and #v > 0, name, "messages must be a list of messages that is not empty, found %s", shown(v))
  call.messages = {}
  for i, m in ipairs(v) do call.messages[i] = read_message(call, m, i - 1) end
end

-- Reads response_format. A schema that is not supported is an error of this field.
local function read_format(call, name, v)
  local kind = is_object(v) and v.type
  that(kind == "json_object" or kind == "json_schema" or kind == "text", name,
    'response_format must be {"type": "text"}, {"type": "json_object"} or {"type": "json_schema", "json_schema": {...}}, found %s',
    is_object(v) and shown(v.type) or shown(v))
  if kind == "text" then return end
  call.o.response_format = {type = kind}
  if kind == "json_object" then return end
  local given = is_object(v.json_schema) and v.json_schema.schema
  that(is_object(given), name, "response_format.json_schema.schema must be an object, found %s", shown(given))
  local schema = template_value(call, name, given)
  local good, why = pcall(require "rille.models.generation.json_grammar", call.tokenizer, call.vocab, schema)
  that(good, name, "%s", (tostring(why):gsub("^[^ ]*:%d+: ", ""):gsub("^generate: ", "")))
  call.o.response_format.json_schema = {schema = schema}
end

-- ---- reading the tools of a chat request ----

local function read_tools(call, name, v)
  call.tools = template_value(call, name, v)
  call.tool_names = tools.names(call.tools)
  that(call.tool_names, name, 'tools must be a list of {"type": "function", "function": {"name": string}}, found %s', shown(v))
end

local function read_tool_choice(call, name, v)
  local fn = is_object(v) and v.type == "function" and is_object(v["function"]) and v["function"].name
  that(v == "auto" or v == "none" or v == "required" or type(fn) == "string", name,
    'tool_choice must be "auto", "none", "required" or {"type": "function", "function": {"name": string}}, found %s', shown(v))
  call.tool_choice, call.tool_name = fn and "function" or v, fn or nil
end

-- Returns the functions of the tools that the answer may call. Each must have a schema that a grammar supports.
local function callable(call)
  local list = {}
  for _, tool in ipairs(call.tools) do
    local fn = tool.of["function"]
    if not call.tool_name or fn.of.name == call.tool_name then list[#list + 1] = fn end
  end
  for _, fn in ipairs(list) do
    local schema = tools.parameters(fn)
    that(values.kind(schema) == "dict" and schema.of.type == "object", "tools", 'tools: the parameters of %s must be a schema of the type "object"', shown(fn.of.name))
    local good, why = pcall(schemas.compile, schema)
    that(good, "tools", "tools: the parameters of %s: %s", shown(fn.of.name), (tostring(why):gsub("^[^ ]*:%d+: ", ""):gsub("^generate: response_format: ", "")))
  end
  return list
end

-- Restricts the answer to calls of tools.
local function require_call(call)
  that(call.tools, "tool_choice", 'tool_choice must be "auto" or "none" in a request without tools, found %s', shown(call.tool_name or call.tool_choice))
  that(not call.tool_name or call.tool_names[call.tool_name], "tool_choice", "tool_choice: unknown function %s; expected a function of tools", shown(call.tool_name))
  that(not call.o.response_format, "response_format", "response_format cannot be combined with a tool_choice that requires a call")
  local schema, before = tools.schema(callable(call), tools.format(call.tokenizer), call.tool_name)
  call.tool_prefix = before
  call.o.response_format = {type = "json_schema", json_schema = {schema = schema}}
end

-- Makes the prompt of a chat, after all fields of the request have been read.
local function finish_chat(call)
  if call.tool_choice == "none" then call.o.bad_words = tools.bans(call.tokenizer) end
  if call.tool_choice == "none" or call.tools and #call.tools == 0 then call.tools, call.tool_names = nil, nil end
  if call.tool_choice == "required" or call.tool_name then require_call(call) end
  if call.tools then call.tool_marks = tools.marks(call.tokenizer) end
  if call.messages then call.prompts[1] = chat_ids(call, call.messages) end
end

-- ---- fields of each kind of request: completion and chat ----

local kinds = {
  completion = {
    required = "prompt", finish = function() end,
    fields = {prompt = read_prompt, best_of = ignored, echo = only(false), suffix = only(json.null),
    logprobs = function(call, name, v) call.o.logprobs = integer(name, v, 0, 20) end},
  },
  chat = {
    required = "messages", finish = finish_chat,
    fields = {messages = read_messages, max_completion_tokens = read_tokens, tools = read_tools, tool_choice = read_tool_choice,
    parallel_tool_calls = only(true),
    logprobs = function(call, name, v) call.o.logprobs = call.o.logprobs or flag(name, v) and 0 or nil end,
    top_logprobs = function(call, name, v) call.o.logprobs = integer(name, v, 0, 20) end,
    response_format = read_format},
  },
}

-- Reads the body of a request into the table `call`, which has model, vocab and tokenizer already. Sets the fields o
-- (options), prompts (lists of ids), n, stream, usage and ignore_eos. kind: "completion" or "chat".
function fields.read(call, kind, text)
  call.order = {}
  local good, body = pcall(json.decode, text, "body", call.order)
  that(good, nil, "the body must be JSON: %s", (tostring(body):gsub("^[^ ]*:%d+: ", "")))
  that(is_object(body), nil, "the body must be a JSON object, found %s", shown(body))
  local own = kinds[kind]
  call.o, call.prompts, call.n = {stop = {}}, {}, 1
  for name, value in pairs(body) do
    local read = own.fields[name] or common[name]
    that(read, name, "unknown field %s", shown(name))
    if value ~= json.null then read(call, name, value) end
  end
  own.finish(call)
  that(call.prompts[1], own.required, "the field %s is missing", own.required)
  that(body.best_of == nil or body.best_of == json.null or body.best_of == call.n, "best_of", "best_of must be equal to n, found %s",
    shown(body.best_of))
  that(#call.prompts * call.n <= MOST_TEXTS, "n", "a request must have at most %d sequences (prompts times n), found %d", MOST_TEXTS, #call.prompts * call.n)
  return call
end

return fields
