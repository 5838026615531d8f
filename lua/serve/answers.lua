-- answers.lua - response bodies of OpenAI's API, as Lua tables.

local json = require "rille.json"

local answers = {}

-- Replaces each invalid byte of a text, because JSON must be UTF-8.
local function valid(text)
  local at, parts = 1, {}
  while true do
    local _, bad = utf8.len(text, at)
    if not bad then break end
    parts[#parts + 1], at = text:sub(at, bad - 1) .. "\u{fffd}", bad + 1
  end
  return #parts == 0 and text or table.concat(parts) .. text:sub(at)
end
answers.valid = valid

-- Returns JSON on one line (encoded strings contain no line breaks).
function answers.line(t) return (json.encode(t):gsub("\n *", "")) end

function answers.error(status, message, param)
  local kind = status >= 500 and "server_error" or "invalid_request_error"
  return {error = {message = valid(message), type = kind, param = param or json.null, code = json.null}}
end

-- ---- log probabilities of an answer's ids ----

-- Returns the text of an id; "" if the tokenizer has no such token.
local function token_text(call, id)
  local good, text = pcall(call.tokenizer.decode, call.tokenizer, {id})
  return good and text or ""
end

local function entry_of(call, id, logprob)
  local text = token_text(call, id)
  return {token = valid(text), logprob = logprob, bytes = json.array{text:byte(1, -1)}}
end

-- Returns the log probabilities of the new ids first to last, in the form of chat completions.
local function chat_logprobs(call, text, first, last)
  local list = json.array{}
  for i = first, last do
    local entry = entry_of(call, text.ids[text.prompt + i], text.logprobs[i])
    entry.top_logprobs = json.array{}
    for k, top in ipairs(text.top_logprobs[i]) do entry.top_logprobs[k] = entry_of(call, top.id, top.logprob) end
    list[#list + 1] = entry
  end
  return {content = list}
end

-- Returns the log probabilities of the new ids first to last, in the form of completions. offset: bytes of the text before
-- these ids.
local function text_logprobs(call, text, first, last, offset)
  local out = {tokens = json.array{}, token_logprobs = json.array{}, top_logprobs = json.array{}, text_offset = json.array{}}
  for i = first, last do
    local k, own, top = i - first + 1, token_text(call, text.ids[text.prompt + i]), {}
    for _, entry in ipairs(text.top_logprobs[i]) do top[valid(token_text(call, entry.id))] = entry.logprob end
    out.tokens[k], out.token_logprobs[k], out.top_logprobs[k], out.text_offset[k] = valid(own), text.logprobs[i], top, offset
    offset = offset + #own
  end
  return out
end

-- Returns the log probabilities of an entry's ids that no earlier part of the stream contained; null: the request did
-- not ask for log probabilities. An entry is one text of the answer.
local function logprobs_of(call, entry)
  local text, first = entry.text, entry.nlogprobs + 1
  if not text.logprobs then return json.null end
  entry.nlogprobs = #text.logprobs
  if call.kind == "chat" then return chat_logprobs(call, text, first, #text.logprobs) end
  return text_logprobs(call, text, first, #text.logprobs, #entry.said - #entry.piece)
end

-- ---- complete and streamed answers ----

local function head(call, object)
  return {id = call.name, object = object, created = call.created, model = call.model}
end

function answers.usage(call)
  local prompt, new, cached = 0, 0, 0
  for _, ids in ipairs(call.prompts) do prompt = prompt + #ids end
  for _, entry in ipairs(call.entries) do
    new, cached = new + #entry.text.ids - entry.text.prompt, cached + (entry.text.reused or 0)
  end
  return {prompt_tokens = prompt, completion_tokens = new, total_tokens = prompt + new,
    prompt_tokens_details = {cached_tokens = cached}}
end

local function finish_of(entry) return entry.calls and "tool_calls" or entry.text.ended or json.null end

-- Returns the list of the tool calls in an entry, one text of the answer; nil: none. streamed: the list is part of a
-- stream.
local function calls_of(entry, streamed)
  if not entry.calls then return nil end
  local list = json.array{}
  for i, one in ipairs(entry.calls) do
    list[i] = {id = one.id, type = "function", index = streamed and i - 1 or nil,
      ["function"] = {name = valid(one.name), arguments = valid(one.arguments)}}
  end
  return list
end

-- Returns the complete response of a request that is not streamed.
function answers.whole(call)
  local out = head(call, call.kind == "chat" and "chat.completion" or "text_completion")
  out.choices, out.usage = json.array{}, answers.usage(call)
  for i, entry in ipairs(call.entries) do
    entry.piece = entry.said
    local choice = {index = i - 1, logprobs = logprobs_of(call, entry), finish_reason = finish_of(entry)}
    if call.kind == "chat" then
      local content = valid(call.tools and entry.shown or entry.said)
      choice.message = {role = "assistant", content = entry.calls and content == "" and json.null or content, refusal = json.null,
        tool_calls = calls_of(entry)}
    else
      choice.text = valid(entry.said)
    end
    out.choices[i] = choice
  end
  return out
end

-- Returns the next part of a stream, with the last piece of the text of `entry` (one of the answer's texts). first:
-- this part begins the text.
function answers.part(call, entry, first)
  local out = head(call, call.kind == "chat" and "chat.completion.chunk" or "text_completion")
  local choice = {index = entry.index, logprobs = first and json.null or logprobs_of(call, entry), finish_reason = finish_of(entry)}
  if call.kind == "chat" then
    choice.delta = first and {role = "assistant", content = ""} or {content = valid(entry.piece), tool_calls = calls_of(entry, true)}
  else
    choice.text = valid(entry.piece)
  end
  out.choices = json.array{choice}
  if call.usage then out.usage = json.null end
  return out
end

-- Returns the last part of a stream, with the usage.
function answers.last(call)
  local out = head(call, call.kind == "chat" and "chat.completion.chunk" or "text_completion")
  out.choices, out.usage = json.array{}, answers.usage(call)
  return out
end

return answers
