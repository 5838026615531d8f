-- api.lua - tests the API of rille serve (lua/serve). Lua tables replace the HTTP transport. Covers answers,
-- streams, usage, errors with their status, clients that close their connection, a full queue, and the server's end.
local tap = dofile("t/lib/tap.lua")
local json = require "rille.json"
local new_server = require "rille.serve.server"

local tokenizer = rille.tokenizer("t/golden/text/tokenizer.json")
rille.manual_seed(3)
local model = rille.models.llama.new{vocab = tokenizer.size, length = 96, layers = 1, heads = 2, width = 16, hidden = 24}
for _, p in ipairs(model:parameters()) do rille.no_grad(function() p:mul_(6) end) end

-- ---- a transport ----

local Transport = {}
Transport.__index = Transport

function Transport:receive() return table.unpack(table.remove(self.requests, 1) or {}) end
function Transport:connected(id) return not self.gone[id] end
function Transport:drop(id) self.dropped[id] = true end
function Transport:close() self.closed = true end
function Transport:answer(id, status, type, text, last)
  self.answers[id] = {status = status, type = type, text = text, last = last}
  return not self.gone[id]
end
function Transport:send(id, text, last)
  local answer = self.answers[id]
  answer.text, answer.last = answer.text .. text, last
  return not self.gone[id]
end

local function new(options)
  local http = setmetatable({requests = {}, gone = {}, answers = {}, dropped = {}}, Transport)
  local served = options and options.model or model
  local given = {http = http, scheduler = served:scheduler{slots = options and options.slots or 4, chunk = 16}, tokenizer = options and options.tokenizer or tokenizer, model = "small",
    vocab = served.config.vocab, stops = options and options.stops or {}, queue = options and options.queue or 100}
  return new_server(given), http
end

local function add(http, path, body, method)
  http.last = (http.last or 0) + 1
  local text = type(body) == "table" and json.encode(body) or body or ""
  table.insert(http.requests, {http.last, method or "POST", path, "application/json; charset=utf-8", text})
  return http.last
end

-- Runs the server's loop until all requests are answered. during(n) is called before the n-th step of the loop.
local function run(server, http, during)
  local n = 0
  server:run(function()
    n = n + 1
    if during then during(n) end
    return #http.requests == 0 and next(server.calls) == nil
  end)
end

-- Returns the answers to a list of requests, as tables.
local function ask(list, options)
  local server, http = new(options)
  for i, r in ipairs(list) do add(http, r[1], r[2], r[3]) end
  run(server, http)
  local out = {}
  for i = 1, #list do
    local a = http.answers[i]
    out[i] = {status = a.status, type = a.type, text = a.text, body = a.type == "application/json" and json.decode(a.text)}
  end
  return out
end

local COMPLETIONS <const>, CHAT <const> = "/v1/completions", "/v1/chat/completions"

-- Returns the text and the ids that m:generate writes.
local function written(prompt, o)
  local ids = tokenizer:encode(prompt, {add_special_tokens = true})
  local row = model:generate({ids}, o)[1]
  local new_ids = table.move(row, #ids + 1, #row, 1, {})
  return tokenizer:decode(new_ids, {skip_special_tokens = true}), new_ids, #ids
end

-- Tries seeds until a generated text matches the pattern after its first bytes. Returns five values: the seed, the
-- text, its ids, the number of ids of the prompt, and the match.
local function text_with(pattern, prompt, o)
  for seed = 1, 100 do
    o.seed = seed
    local text, ids, n = written(prompt, o)
    local found = text:match(pattern, 4)
    if found and text:find(found, 1, true) > 3 then return text, ids, n, found end
  end
end

local function valid(text) return require("rille.serve.answers").valid(text) end

local function events(text) return tap.all(text:gmatch("data: ([^\n]*)\n\n")) end

tap.group("JSON objects", function()
  local bias = {}
  for _, byte in ipairs{"}", "]", '"'} do bias[tostring(tokenizer:encode(byte)[1])] = 9 end
  local field = {messages = {{role = "user", content = "x"}}, response_format = {type = "json_object"}, seed = 2, logit_bias = bias, n = 4}
  local ended, wrong = 0, {}
  for _, choice in ipairs(ask{{CHAT, field}}[1].body.choices) do
    local text, good = choice.message.content, nil
    good = pcall(json.decode, text)
    ended = ended + (choice.finish_reason == "stop" and 1 or 0)
    if good ~= (choice.finish_reason == "stop") or text:sub(1, 1) ~= "{" and not text:find "^%s" then wrong[#wrong + 1] = text end
  end
  tap.ok(ended > 0 and #wrong == 0, "messages that ended are JSON objects", table.concat(wrong, " | "))
end)

tap.group("the first request for JSON", function()
  local calls, body = 0, {messages = {{role = "user", content = "x"}}, max_tokens = 3, response_format = {type = "json_object"}}
  local own = {size = tokenizer.size, encode = function(_, ...) return tokenizer:encode(...) end}
  function own.decode(_, ...)
    calls = calls + 1
    return tokenizer:decode(...)
  end
  function own.chat() error("x has no chat template", 0) end
  local server, http = new{tokenizer = own}
  local before = calls
  local id = add(http, CHAT, body)
  run(server, http)
  tap.ok(http.answers[id].status == 200 and before >= tokenizer.size and calls - before < 50, "decodes no vocabulary, because the server did so at its start",
    before .. " " .. calls)
end)

tap.group("schemas", function()
  local spaces = {} -- forbids spaces, because a random model would generate only spaces
  for id = 0, tokenizer.size - 1 do
    if tokenizer:decode{id}:find "^%s+$" then table.insert(spaces, ('"%d": -100'):format(id)) end
  end
  local text = '{"messages": [{"role": "user", "content": "x"}], "max_tokens": 60, "logit_bias": {' .. table.concat(spaces, ",") .. '}, "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, ' ..
    '"schema": {"type": "object", "properties": {"z": {"type": "boolean"}, "a": {"enum": ["x"]}}, "required": ["z", "a"], "additionalProperties": false}}}}'
  local content = ask{{CHAT, text}}[1].body.choices[1].message.content
  local good, v = pcall(json.decode, content)
  tap.ok(good and type(v.z) == "boolean" and v.a == "x" and content:find '"z".*"a"', "a message satisfies the schema, in its order", content)
end)

tap.group("completions", function()
  local o = {max_new_tokens = 8, temperature = 0.7, top_k = 50}
  local text, ids, n, stop = text_with("[\33-\126]", "hello world", o)
  local field = {prompt = "hello world", max_tokens = 8, temperature = 0.7, seed = o.seed, top_k = 50, model = "small", user = "me", suffix = json.null}
  local a = ask{{COMPLETIONS, field}}[1]
  tap.is({a.status, a.body.object, a.body.model, #a.body.choices}, {200, "text_completion", "small", 1}, "a completion has the API's form")
  tap.is({a.body.choices[1].text, a.body.choices[1].finish_reason}, {valid(text), "length"}, "its text is that of m:generate")
  tap.is({a.body.usage.prompt_tokens, a.body.usage.completion_tokens, a.body.usage.total_tokens}, {n, 8, n + 8}, "usage counts ids")
  field.prompt, field.n = {"hello world", "other", {1, 2, 3}}, 2
  a = ask{{COMPLETIONS, field}}[1]
  tap.is(#a.body.choices, 6, "n texts for each prompt")
  tap.is(a.body.choices[1].text, valid(text), "the first is that of one prompt alone")
  field.prompt, field.n, field.logprobs = "hello world", nil, 3
  a = ask{{COMPLETIONS, field}}[1].body.choices[1].logprobs
  tap.is({#a.tokens, #a.token_logprobs, #a.top_logprobs, #a.text_offset, a.tokens[1]}, {8, 8, 8, 8, valid(tokenizer:decode{ids[1]})}, "log probabilities of each id")
  local cut = text:sub(1, text:find(stop, 1, true) - 1)
  field.logprobs, field.stop = nil, {stop, "never there"}
  a = ask{{COMPLETIONS, field}}[1].body.choices[1]
  tap.is({a.text, a.finish_reason}, {valid(cut), "stop"}, "a stop string ends the text before it")
  field.stop, field.stop_token_ids = nil, {ids[3]}
  a = ask{{COMPLETIONS, field}}[1].body.choices[1]
  tap.is({a.text, a.finish_reason}, {valid(tokenizer:decode{ids[1], ids[2]}), "stop"}, "a stop id is not part of the text")
  field.stop_token_ids = nil
  a = ask({{COMPLETIONS, field}}, {stops = {ids[3]}})[1].body.choices[1]
  tap.is(a.finish_reason, "stop", "the model's own end ids end a text")
  field.ignore_eos = true
  a = ask({{COMPLETIONS, field}}, {stops = {ids[3]}})[1].body.choices[1]
  tap.is(a.text, valid(text), "ignore_eos continues behind them")
end)

tap.group("chat and streams", function()
  local field = {messages = {{role = "system", content = "be short"}, {role = "user", content = json.array{{type = "text", text = "hi"}}}},
    max_completion_tokens = 9, temperature = 0, logprobs = true, top_logprobs = 2}
  local whole = ask{{CHAT, field}}[1].body
  local text = written("system: be short\nuser: hi\nassistant:", {max_new_tokens = 9, temperature = 0})
  tap.is({whole.object, whole.choices[1].message.role, whole.choices[1].message.content}, {"chat.completion", "assistant", valid(text)},
    "without a template, messages are lines")
  tap.is({#whole.choices[1].logprobs.content, #whole.choices[1].logprobs.content[1].top_logprobs}, {9, 2}, "log probabilities of each id")
  field.stream, field.stream_options, field.n = true, {include_usage = true}, 2
  local a = ask{{CHAT, field}}[1]
  local list, said, ended, logprobs = events(a.text), {"", ""}, 0, 0
  tap.is({a.type, list[#list]}, {"text/event-stream", "[DONE]"}, "a stream ends with [DONE]")
  for i = 1, #list - 2 do
    local part = json.decode(list[i])
    local choice = part.choices[1]
    said[choice.index + 1] = said[choice.index + 1] .. choice.delta.content
    if choice.finish_reason ~= json.null then ended = ended + 1 end
    if choice.logprobs ~= json.null then logprobs = logprobs + #choice.logprobs.content end
  end
  tap.is({said, ended, logprobs}, {{valid(text), valid(text)}, 2, 18}, "its parts together are the whole answer")
  local last = json.decode(list[#list - 1])
  tap.is({#last.choices, last.usage.completion_tokens}, {0, 18}, "the usage is in the last part")
  local o, stop, _ = {max_new_tokens = 30, temperature = 1}, nil, nil
  text, _, _, stop = text_with("[\33-\126][\33-\126]+", "hello", o)
  a = ask{{COMPLETIONS, {prompt = "hello", max_tokens = 30, temperature = 1, seed = o.seed, stop = stop, stream = true}}}[1]
  local parts = tap.list(events(a.text), function(line) return line ~= "[DONE]" and json.decode(line).choices[1].text or "" end)
  tap.is(table.concat(parts), valid(text:sub(1, text:find(stop, 1, true) - 1)), "a stream never contains the beginning of a stop string")
end)

tap.group("chat templates", function()
  local field = {messages = {{role = "user", content = "hi"}}, max_tokens = 5, temperature = 0}
  local own = {decode = function(_, ...) return tokenizer:decode(...) end, encode = function(_, ...) return tokenizer:encode(...) end}
  local function answer(chat)
    local server, http = new()
    server.tokenizer, own.chat = setmetatable({}, {__index = own}), chat
    local id = add(http, CHAT, field)
    run(server, http)
    return http.answers[id].status, json.decode(http.answers[id].text)
  end
  local status, a = answer(function(_, messages, o) return o.add_generation_prompt and "<" .. messages[1].content .. ">" end)
  tap.is({status, a.choices[1].message.content, a.usage.prompt_tokens},
    {200, valid(written("<hi>", {max_new_tokens = 5, temperature = 0})), #tokenizer:encode("<hi>")}, "the template makes the prompt")
  status, a = answer(function() error("chat: template: line 3: roles must alternate", 0) end)
  tap.is({status, a.error.message, a.error.param}, {400, "messages: chat: template: line 3: roles must alternate", "messages"},
    "an error of the template is the request's")
  status, a = answer(function() error("chat: x has no chat template: expected chat_template.jinja", 0) end)
  tap.is({status, a.choices[1].message.content}, {200, valid(written("user: hi\nassistant:", {max_new_tokens = 5, temperature = 0}))},
    "without a template, messages are lines")
end)

tap.group("errors", function()
  local function good(more) return tap.with({prompt = "x", max_tokens = 2}, more) end
  local cases = {
    {400, "must be JSON", COMPLETIONS, "{"}, {400, "must be a JSON object", COMPLETIONS, "[1]"}, {400, "must be JSON", COMPLETIONS, ""},
    {400, "prompt is missing", COMPLETIONS, {max_tokens = 1}}, {400, "messages is missing", CHAT, {max_tokens = 1}},
    {400, "unknown field \"nonsense\"", COMPLETIONS, good{nonsense = 1}}, {400, "unknown field \"required\"", COMPLETIONS, good{required = 1}},
    {404, "unknown model", COMPLETIONS, good{model = "big"}}, {400, "model must be a string", COMPLETIONS, good{model = 3}},
    {400, "temperature must be a number from 0 to 2", COMPLETIONS, good{temperature = 3}}, {400, "found \"a\"", COMPLETIONS, good{temperature = "a"}},
    {400, "top_p must be above 0", COMPLETIONS, good{top_p = 0}}, {400, "max_tokens must be an integer", COMPLETIONS, good{max_tokens = 1.5}},
    {400, "at most 96, found", COMPLETIONS, good{max_tokens = 1000}}, {400, "a prompt of 200 tokens", COMPLETIONS, good{prompt = ("a "):rep(100)}},
    {400, "n must be", COMPLETIONS, good{n = 0}}, {400, "at most 64 sequences", COMPLETIONS, good{prompt = {"a", "b"}, n = 40}},
    {400, "stop must be", COMPLETIONS, good{stop = 3}}, {400, "logit_bias", COMPLETIONS, good{logit_bias = {["100000"] = 1}}},
    {400, "logit_bias", COMPLETIONS, good{logit_bias = {["1"] = 500}}},
    {400, 'an id of logit_bias must be an integer from 0 to ', COMPLETIONS, good{logit_bias = {a = 1}}}, {400, 'found "a"', COMPLETIONS, good{logit_bias = {a = 1}}},
    {400, "echo is not supported", COMPLETIONS, good{echo = true}},
    {400, "best_of must be equal to n", COMPLETIONS, good{best_of = 3}}, {400, "prompt must be an integer", COMPLETIONS, good{prompt = {1, -1}}},
    {400, "at least one id", COMPLETIONS, good{prompt = ""}}, {400, "logprobs must be an integer from 0 to 20", COMPLETIONS, good{logprobs = 21}},
    {400, "messages must be a list", CHAT, {messages = {}}}, {400, "messages[0]", CHAT, {messages = {{content = "x"}}}},
    {400, "content[0]", CHAT, {messages = {{role = "user", content = {{type = "image_url"}}}}}},
    {400, "response_format", CHAT, {messages = {{role = "user", content = "x"}}, response_format = {type = "xml"}}},
    {400, "response_format: schema.a: the keyword format is not supported", CHAT, {messages = {{role = "user", content = "x"}}, response_format = {type = "json_schema",
      json_schema = {name = "n", schema = {type = "object", properties = {a = {format = "date"}}}}}}},
    {400, "response_format.json_schema.schema must be an object", CHAT, {messages = {{role = "user", content = "x"}}, response_format = {type = "json_schema"}}},
    {404, "unknown path /nowhere", "/nowhere", "{}"}, {405, "must be POST", COMPLETIONS, "", "GET"}, {405, "must be GET", "/health", "{}"},
  }
  local list = tap.list(cases, function(case) return {case[3], case[4], case[5]} end)
  for i, a in ipairs(ask(list)) do
    local message = a.body and a.body.error and a.body.error.message or a.text
    tap.ok(a.status == cases[i][1] and message:find(cases[i][2], 1, true), ("%d: %s"):format(cases[i][1], cases[i][2]), a.status .. " " .. message)
  end
  local server, http = new()
  http.requests[1] = {1, "POST", COMPLETIONS, "text/plain", "{}"}
  run(server, http)
  tap.is(http.answers[1].status, 415, "only JSON is read, so that a form of another site cannot send a request")
end)

tap.group("ids without a token", function()
  local wide = rille.models.llama.new{vocab = tokenizer.size + 32, length = 96, layers = 1, heads = 2, width = 16, hidden = 24}
  local bias = {[tostring(tokenizer.size + 3)] = 100}
  for _, logprobs in ipairs{0, 2} do
    local a = ask({{COMPLETIONS, {prompt = "a", max_tokens = 4, logit_bias = bias, logprobs = logprobs}}}, {model = wide})[1]
    tap.is({a.status, a.body.choices and a.body.choices[1].text, a.body.usage and a.body.usage.completion_tokens}, {200, "", 4},
      "an id that the tokenizer lacks has no text, and does not fail the server")
  end
end)

tap.group("other paths", function()
  local a = ask{{"/health", "", "GET"}, {"/v1/models", "", "GET"}, {"/v1/models/small", "", "GET"}, {COMPLETIONS, {prompt = "a", max_tokens = 3}}, {"/metrics", "", "GET"}}
  tap.is({a[1].status, a[2].body.data[1].id, a[3].body.id}, {200, "small", "small"}, "health and models")
  tap.ok(a[5].text:find('rille_requests_total{status="200"} 3', 1, true), "metrics count requests", a[5].text)
  local other = ask{{"/v1/models/other", "", "GET"}}[1]
  tap.is({other.status, other.body.error.message}, {404, 'unknown model "other"; expected "small"'}, "another model is unknown")
end)

tap.group("many requests", function()
  local function field(i) return {prompt = ("hello %d"):format(i % 4), max_tokens = 6, temperature = 1, seed = i % 4, stream = i % 3 == 0} end
  local alone, list = {}, {}
  for i = 0, 3 do alone[i] = valid(written(("hello %d"):format(i), {max_new_tokens = 6, temperature = 1, seed = i})) end
  for i = 1, 24 do list[i] = {COMPLETIONS, field(i)} end
  local same = 0
  for i, a in ipairs(ask(list, {slots = 3})) do
    local text = a.body and a.body.choices[1].text or ""
    for _, line in ipairs(a.body and {} or events(a.text)) do text = text .. (line ~= "[DONE]" and json.decode(line).choices[1].text or "") end
    if valid(text) == alone[i % 4] then same = same + 1 end
  end
  tap.is(same, 24, "each request gets its own text, whatever shares the slots")
  local refused = 0
  for _, a in ipairs(ask(list, {slots = 2, queue = 5})) do
    if a.status == 503 then refused = refused + 1 end
  end
  tap.is(refused, 24 - 7, "texts beyond slots and queue are refused with 503")
end)

tap.group("clients that go away, and the end", function()
  local server, http = new{slots = 1}
  local first = add(http, COMPLETIONS, {prompt = "a", max_tokens = 60})
  local streamed = add(http, COMPLETIONS, {prompt = "b", max_tokens = 60, stream = true})
  local third = add(http, COMPLETIONS, {prompt = "c", max_tokens = 4})
  run(server, http, function(n)
    if n == 3 then http.gone[first] = true end
    if n == 6 then http.gone[streamed] = true end
  end)
  tap.is({http.dropped[first], http.answers[first] == nil, http.dropped[streamed], http.answers[third].status}, {true, true, true, 200},
    "texts of clients that are gone free their slot")
  tap.is({server.scheduler.running, #server.scheduler.waiting, server.count.cancelled}, {0, 0, 2}, "nothing is left")
  server, http = new{slots = 1}
  local runs, waits, late = add(http, COMPLETIONS, {prompt = "a", max_tokens = 9}), add(http, COMPLETIONS, {prompt = "b", max_tokens = 9}), nil
  local n = 0
  server:run(function()
    n = n + 1
    if n == 4 then late = add(http, COMPLETIONS, {prompt = "b", max_tokens = 9}) end
    return n == 4
  end)
  tap.is({http.answers[runs].status, http.answers[waits].status, http.answers[late].status, http.closed}, {200, 503, 503, true},
    "after a signal, texts that run end, and all others are refused")
end)

tap.done()
