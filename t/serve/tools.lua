-- tools.lua - tests tools in chats of rille serve (lua/serve/tools.lua): the tools in the prompt, messages of roles
-- assistant and tool, and the calls in answers of the three formats, complete and streamed. A script replaces the model.
local tap = dofile("t/lib/tap.lua")
local json = require "rille.json"
local new_server = require "rille.serve.server"
local new_text = require "rille.models.generation.text"
local sampling = require "rille.models.generation.sampling"
local random = require "rille.base.random"

local real = rille.tokenizer("t/golden/text/tokenizer.json")
local MARKS <const> = {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"} -- special tokens
local MARK <const> = real.size -- id of the first

-- ---- a tokenizer with the special tokens, and a model that writes given ids ----

local prompt -- arguments of the last call of the chat template: {messages, options}
local tokenizer = {size = real.size + #MARKS}
local function first_mark(text, at)
  local first, last, which
  for i, mark in ipairs(MARKS) do
    local from, to = text:find(mark, at, true)
    if from and (not first or from < first) then first, last, which = from, to, i end
  end
  return first, last, which
end
function tokenizer.encode(_, text, o)
  local ids, at = {}, 1
  while true do
    local first, last, which = first_mark(text, at)
    for _, id in ipairs(real:encode(text:sub(at, (first or #text + 1) - 1), o)) do ids[#ids + 1] = id end
    if not first then return ids end
    ids[#ids + 1], at = MARK + which - 1, last + 1
  end
end
function tokenizer.decode(_, ids, o)
  local kept = {}
  for _, id in ipairs(ids) do
    if id < MARK then kept[#kept + 1] = id elseif not (o and o.skip_special_tokens) then return MARKS[id - MARK + 1] end
  end
  return real:decode(kept, o)
end
local format = "" -- text with which the chat template begins a call
function tokenizer.chat(_, messages, o)
  if not o then return format end
  prompt = {messages, o}
  return "prompt"
end

local function new_scheduler(script)
  local s = {slots = 1, length = 1000, running = 0, waiting = {}, texts = {}}
  function s.add(_, ids, given)
    local o = sampling.read("scheduler", given, tokenizer.size)
    table.insert(s.texts, new_text(table.move(ids, 1, #ids, 1, {}), o, random.integers(1)))
    return s.texts[#s.texts]
  end
  function s.cancel() end
  function s.step()
    local changed = {}
    for _, text in ipairs(s.texts) do
      if not text.ended then
        text:accept(script[#text.ids - text.prompt + 1])
        changed[#changed + 1] = text
      end
    end
    return changed
  end
  return s
end

-- Sends a request and returns the status and the answer. script: list of ids that the model writes; or the scheduler
-- of a model.
local function ask(script, field, no_template)
  local http, answer = {}, {text = ""}
  local requests = {{1, "POST", "/v1/chat/completions", "application/json", type(field) == "string" and field or json.encode(field)}}
  function http.receive() return table.unpack(table.remove(requests) or {}) end
  function http.connected() return true end
  function http.close() end
  function http.answer(_, _, status, _, text) answer.status, answer.text = status, text return true end
  function http.send(_, _, text) answer.text = answer.text .. text return true end
  local own = no_template and setmetatable({chat = function() error("chat: x has no chat template", 0) end}, {__index = tokenizer}) or tokenizer
  local server = new_server{http = http, scheduler = script.step and script or new_scheduler(script), tokenizer = own, model = "m", vocab = tokenizer.size, stops = {}, queue = 9}
  server:run(function() return not requests[1] and next(server.calls) == nil end)
  return answer.status, answer.text
end

-- Returns the message and the reason of an answer: {content, {{name, arguments}, ...}, reason}. Streams are joined.
local function answer_of(script, field)
  local _, text = ask(script, field)
  local content, calls, reason = "", {}, nil
  local function add(message, choice)
    if message.content and message.content ~= json.null then content = content .. message.content end
    for i, call in ipairs(message.tool_calls or {}) do
      local good = call.type == "function" and #call.id == 9
      if not good then error "a call needs a type and an id of nine digits" end
      if field.stream and call.index ~= i - 1 then error "a streamed call needs its index" end
      calls[#calls + 1] = {call["function"].name, call["function"].arguments}
    end
    if choice.finish_reason ~= json.null then reason = choice.finish_reason end
  end
  if field.stream then
    for line in text:gmatch "data: ({[^\n]*)" do
      local choice = json.decode(line).choices[1]
      add(choice.delta, choice)
    end
  else
    local choice = json.decode(text).choices[1]
    add(choice.message, choice)
  end
  return {content, calls, reason}
end

local function tool(name) return {type = "function", ["function"] = {name = name, parameters = {type = "object", properties = {x = {type = "integer"}}}}} end
local function request(n, more)
  return tap.with({messages = {{role = "user", content = "x"}}, tools = {tool "f", tool "g"}, max_tokens = n}, more)
end

local one, two = {{"f", '{"x": 1}'}}, {{"f", '{"x": 1}'}, {"g", "{}"}}
-- Columns: text that the model writes, content of the answer, calls in the answer.
local cases = {
  {'<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>', "", one},
  {'<tool_call>{"name": "f", "arguments": {"x": 1}}', "", one},
  {'I look.\n\n<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>\n<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>', "I look.\n\n", two},
  {'{"name": "f", "parameters": {"x": 1}}', "", one}, {' {"name": "g"}', "", {{"g", "{}"}}},
  {'[TOOL_CALLS] [{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": {}}]', "", two},
  {'hm[TOOL_CALLS][{"name": "f", "arguments": {"x": 1}}]', "hm", one},
  {'<tool_call>{"name": "f", "arguments": {"z": [1.5, null, "é"], "a": true}}</tool_call>', "", {{"f", '{"z": [1.5, null, "é"], "a": true}'}}},
  {"plain <tool> text [TOOL", "plain <tool> text [TOOL", {}}, {'{"a": 1}', '{"a": 1}', {}}, {"{", "{", {}},
  {'<tool_call>{"name": "h", "arguments": {}}</tool_call>', '<tool_call>{"name": "h", "arguments": {}}</tool_call>', {}},
  {'<tool_call>{"name": "f", "arguments": {}}</tool_call> and text', '<tool_call>{"name": "f", "arguments": {}}</tool_call> and text', {}},
  {'<tool_call>{"name": "f", "arguments": 3}</tool_call>', '<tool_call>{"name": "f", "arguments": 3}</tool_call>', {}},
  {'[TOOL_CALLS]f[ARGS]{"x": 1}', "", one}, {'hm [TOOL_CALLS]f[ARGS]{"x": 1}[TOOL_CALLS]g[ARGS]{}', "hm ", two},
  {'[TOOL_CALLS]f[CALL_ID]abc123456[ARGS]{"x": 1}[TOOL_CALLS] g[CALL_ID]abc123457[ARGS]{}', "", two},
  {'[TOOL_CALLS]h[ARGS]{}', "[TOOL_CALLS]h[ARGS]{}", {}}, {'[TOOL_CALLS]f[ARGS]{"x"', '[TOOL_CALLS]f[ARGS]{"x"', {}},
  {'[TOOL_CALLS]f[ARGS]3', "[TOOL_CALLS]f[ARGS]3", {}}, {'[TOOL_CALLS]f{"x": 1}', '[TOOL_CALLS]f{"x": 1}', {}},
  {'[TOOL_CALLS]f and g[ARGS]{}', "[TOOL_CALLS]f and g[ARGS]{}", {}},
  {"[TOOL_CALLS] []", "[TOOL_CALLS] []", {}}, {"[TOOL_CALLS] oh", "[TOOL_CALLS] oh", {}},
}

tap.group("answers", function()
  for _, case in ipairs(cases) do
    local script = tokenizer:encode(case[1])
    local reason = case[3][1] and "tool_calls" or "length"
    tap.is(answer_of(script, request(#script)), {case[2], case[3], reason}, "an answer with " .. #case[3] .. " calls: " .. case[1]:sub(1, 30):gsub("\n", " "))
    local wrong = {}
    for n = 1, #script do
      local whole, streamed = answer_of(script, request(n)), answer_of(script, request(n, {stream = true}))
      if json.encode(whole) ~= json.encode(streamed) then wrong[#wrong + 1] = n .. ": " .. json.encode(whole) .. json.encode(streamed) end
    end
    tap.ok(#wrong == 0, "streams and complete answers agree at each length", wrong[1])
  end
  local script = tokenizer:encode(cases[1][1])
  tap.is(answer_of(script, request(#script, {tool_choice = "none"})), {cases[1][1], {}, "length"}, "tool_choice none: the answer is text")
end)

tap.group("required calls", function()
  rille.manual_seed(3)
  local model = rille.models.llama.new{vocab = tokenizer.size, length = 512, layers = 1, heads = 2, width = 16, hidden = 24}
  for _, p in ipairs(model:parameters()) do rille.no_grad(function() p:mul_(6) end) end
  local tree = {type = "object", properties = {next = {["$ref"] = "#/$defs/node"}}, ["$defs"] = {node = {type = "object", properties = {n = {type = "boolean"}}, required = json.array{"n"}, additionalProperties = false}}, required = json.array{"next"}}
  local list = {tool "f", {type = "function", ["function"] = {name = "g"}}, {type = "function", ["function"] = {name = "tree", parameters = tree}}}
  local bias = {}
  for _, text in ipairs{"}", "]", '"', "0"} do bias[tostring(real:encode(text)[1])] = 9 end
  for i, mark in ipairs{"<tool_call>", "[TOOL_CALLS]", "{", "[TOOL_CALLS]f[ARGS]{}"} do
    for k, choice in ipairs{"required", {type = "function", ["function"] = {name = "tree"}}} do
      format = mark
      local whole = request(400, {tools = list, tool_choice = choice, seed = 10 * i + k, logit_bias = bias})
      local answer = answer_of(model:scheduler{slots = 1}, whole)
      local wrong = answer[3] ~= "tool_calls" or answer[1] ~= "" or not answer[2][1]
      for _, one in ipairs(answer[2]) do
        local arguments = json.decode(one[2])
        wrong = wrong or k == 2 and (#answer[2] > 1 or one[1] ~= "tree") or one[1] == "tree" and type(arguments.next.n) ~= "boolean" or one[1] == "f" and math.type(arguments.x or 0) ~= "integer"
      end
      tap.ok(not wrong, ("a model's answer in the format %s consists of calls of the permitted functions, whose arguments satisfy the schemas"):format(mark), json.encode(answer))
      tap.is(answer_of(model:scheduler{slots = 1}, tap.with(whole, {stream = true})), answer, "a stream has the same calls")
    end
  end
  format = ""
  local scheduler = new_scheduler{1}
  ask(scheduler, request(1, {tool_choice = "none"}))
  tap.is(scheduler.texts[1].o.bad_words, {{MARK}}, "tool_choice none bans the special token that begins calls")
end)

tap.group("prompts", function()
  ask({1}, request(1))
  local list = prompt[2].tools
  tap.is({#list, list[1].of["function"].of.name, #prompt[1]}, {2, "f", 1}, "the template receives the tools")
  ask({1}, [[{"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, "tools": [{"type": "function", "function": {"name": "f", "z": 1, "a": 2}}]}]])
  tap.is(prompt[2].tools[1].of["function"].keys, {"name", "z", "a"}, "names keep their order")
  for _, more in ipairs{{tool_choice = "none"}, {tools = json.array{}}} do
    ask({1}, request(1, more))
    tap.is(prompt[2].tools, nil, "without tools the template receives none")
  end
  local call = {id = "c1", type = "function", ["function"] = {name = "f", arguments = '{"z": 1, "a": 2}'}}
  ask({1}, request(1, {messages = {{role = "user", content = "x"}, {role = "assistant", content = json.null, tool_calls = {call}},
    {role = "tool", tool_call_id = "c1", name = "f", content = "12"}}}))
  local made = prompt[1][2].tool_calls[1].of
  tap.is({made.id, made["function"].of.name, made["function"].of.arguments.keys, prompt[1][2].content}, {"c1", "f", {"z", "a"}},
    "the template receives calls with their arguments as an object")
  tap.is(prompt[1][3], {role = "tool", tool_call_id = "c1", name = "f", content = "12"}, "and results of tools")
end)

tap.group("errors", function()
  local function messages(...) return {messages = {{role = "user", content = "x"}, ...}} end
  local function calls(call) return messages{role = "assistant", tool_calls = call} end
  for _, case in ipairs{{"tools must be a list", {tools = {{type = "x"}}}}, {"tools must be a list", {tools = 3}}, {"tools must be a list", {tools = {{type = "function"}}}},
    {'tool_choice must be "auto", "none", "required" or {"type": "function", "function": {"name": string}}, found "any"', {tool_choice = "any"}},
    {'tool_choice: unknown function "h"; expected a function of tools', {tool_choice = {type = "function", ["function"] = {name = "h"}}}},
    {'tool_choice must be "auto" or "none" in a request without tools, found "required"', {tools = json.array{}, tool_choice = "required"}},
    {'tools: the parameters of "f" must be a schema of the type "object"', {tool_choice = "required", tools = {{type = "function", ["function"] = {name = "f", parameters = {type = "array"}}}}}},
    {'tools: the parameters of "f": schema.x: the keyword format is not supported', {tool_choice = "required", tools = {{type = "function", ["function"] = {name = "f", parameters = {type = "object", properties = {x = {format = "date"}}}}}}}},
    {'tools: the parameters of "f": schema.x: pattern "a(?=b)": at byte 4, groups that begin with (? are not supported', {tool_choice = "required", tools = {{type = "function", ["function"] = {name = "f", parameters = {type = "object", properties = {x = {pattern = "a(?=b)"}}}}}}}},
    {"response_format cannot be combined with a tool_choice that requires a call", {tool_choice = "required", response_format = {type = "json_object"}}},
    {"parallel_tool_calls is not supported; expected true", {parallel_tool_calls = false}},
    {"messages[1].tool_calls must be a list that is not empty", calls(3)}, {"messages[1].tool_calls[0] must be", calls{{id = "a"}}},
    {"arguments must be the JSON text of an object", calls{{id = "a", type = "function", ["function"] = {name = "f", arguments = "[1]"}}}},
    {"messages[1].tool_call_id must be a string", messages{role = "tool", content = "x"}}, {"messages[1].content", messages{role = "assistant"}}} do
    local status, text = ask({1}, request(1, case[2]))
    tap.ok(status == 400 and json.decode(text).error.message:find(case[1], 1, true), "400: " .. case[1], text)
  end
  local status, text = ask({1}, request(1), true)
  tap.ok(status == 400 and text:find "send the request without tools", "400: a model without a chat template has no tools", text)
end)
tap.done()
