-- server.lua - the loop of rille serve: adds the prompts of requests to a scheduler, and sends new tokens to the clients.
--
-- One thread uses this module. http: the transport (shell/serve/http.h), or an object with the same methods. A call
-- is a request that is being processed. The entries of a call are texts (sequences) of the scheduler; the texts of
-- all calls share the slots. If a client disconnects, its texts are cancelled, and their slots become free.

local rille = require "rille"
local answers = require "rille.serve.answers"
local fields = require "rille.serve.fields"
local new_grammar = require "rille.models.generation.json_grammar"
local tools = require "rille.serve.tools"

local Server = {}
Server.__index = Server

local IDLE <const> = 0.1 -- interval at which the server checks for a signal, s
local GRACE <const> = 30 -- time that running requests have to finish after a signal, s

-- Creates a server. given: http, scheduler, tokenizer, model (name), vocab, stops (ids), queue (maximum number of
-- waiting texts). Sorts the tokens for answers in JSON now, because later that would delay running texts.
local function new(given)
  new_grammar(given.tokenizer, given.vocab)
  local self = {calls = {}, of_text = {}, count = {status = {}, prompt = 0, cached = 0, new = 0, cancelled = 0}, last = 0,
    started = rille.clock()}
  for name, value in pairs(given) do self[name] = value end
  self.created = os.time()
  return setmetatable(self, Server)
end

-- ---- sending answers to clients ----

local function reply(self, id, status, body, type)
  self.count.status[status] = (self.count.status[status] or 0) + 1
  return self.http:answer(id, status, type or "application/json", body, true)
end

local function reply_error(self, id, status, message, param)
  return reply(self, id, status, answers.line(answers.error(status, message, param)) .. "\n")
end

local function event(t) return "data: " .. (type(t) == "string" and t or answers.line(t)) .. "\n\n" end

-- Removes a call (a request in progress), and frees the slots of its texts.
local function remove(self, call)
  self.calls[call.id] = nil
  for _, entry in ipairs(call.entries) do
    self.of_text[entry.text] = nil
    self.scheduler:cancel(entry.text)
  end
end

-- Ends a call (a request in progress) whose client disconnected.
local function drop(self, call)
  self.count.cancelled = self.count.cancelled + 1
  remove(self, call)
  self.http:drop(call.id)
end

-- Ends a call (a request in progress) with an error.
local function fail(self, call, status, message)
  if call.begun then
    self.http:send(call.id, event(answers.error(status, message)), true)
  else
    reply_error(self, call.id, status, message)
  end
  remove(self, call)
end

-- Sends the end of the answer to a request, after all of its texts have ended.
local function finish(self, call)
  local usage = answers.usage(call)
  self.count.prompt, self.count.new = self.count.prompt + usage.prompt_tokens, self.count.new + usage.completion_tokens
  self.count.cached = self.count.cached + usage.prompt_tokens_details.cached_tokens
  if call.begun then
    self.http:send(call.id, (call.usage and event(answers.last(call)) or "") .. event("[DONE]"), true)
  else
    reply(self, call.id, 200, answers.line(answers.whole(call)) .. "\n")
  end
  remove(self, call)
end

-- Sends the last piece of a text to the client.
local function deliver(self, text)
  local call, entry = table.unpack(self.of_text[text] or {})
  if not call then return end
  entry.piece = text.piece
  entry.said = entry.said .. text.piece
  if call.tools then tools.read_answer(call, entry) end
  if text.ended == "error" then return fail(self, call, 500, "the model's logits are nan or inf") end
  if call.begun and (#entry.piece > 0 or text.ended or text.logprobs) then
    if not self.http:send(call.id, event(answers.part(call, entry)), false) then return drop(self, call) end
  end
  if not text.ended then return end
  call.left = call.left - 1
  if call.left == 0 then finish(self, call) end
end

-- ---- handling requests ----

-- Adds the texts of a call (a request in progress) to the scheduler.
local function add_texts(self, call)
  local o, entries = call.o, {}
  for _, id in ipairs(call.ignore_eos and {} or self.stops) do table.insert(o.stop, id) end
  for _, ids in ipairs(call.prompts) do
    local room = self.scheduler.length - #ids
    if room < 1 or o.max_new_tokens and o.max_new_tokens > room then
      fields.fail(400, "max_tokens", "prompt and new tokens must be at most %d, found a prompt of %d tokens and %d new tokens",
        self.scheduler.length, #ids, o.max_new_tokens or 1)
    end
    for i = 1, call.n do
      local own = {tokenizer = self.tokenizer}
      for name, value in pairs(o) do own[name] = value end
      own.max_new_tokens = own.max_new_tokens or call.kind == "completion" and math.min(16, room) or room
      own.seed = own.seed and own.seed + #entries
      local good, text = pcall(self.scheduler.add, self.scheduler, ids, own)
      if not good then
        for _, entry in ipairs(entries) do self.scheduler:cancel(entry.text) end
        fields.fail(400, nil, "%s", (tostring(text):gsub("^[^ ]*:%d+: ", ""):gsub("^scheduler: ", "")))
      end
      entries[#entries + 1] = {text = text, index = #entries, said = "", shown = "", piece = "", nlogprobs = 0}
    end
  end
  return entries
end

-- Begins to process a request of kind "completion" or "chat".
local function begin(self, id, kind, body)
  if self.closing then fields.fail(503, nil, "the server is shutting down") end
  local call = {id = id, kind = kind, model = self.model, vocab = self.vocab, tokenizer = self.tokenizer, created = os.time()}
  fields.read(call, kind, body)
  if #self.scheduler.waiting + #call.prompts * call.n > self.queue + self.scheduler.slots - self.scheduler.running then
    fields.fail(503, nil, "%d sequences wait already; try again later", #self.scheduler.waiting)
  end
  call.entries = add_texts(self, call)
  self.last = self.last + 1
  call.name, call.left = ("%s-%d-%d"):format(kind == "chat" and "chatcmpl" or "cmpl", self.created, self.last), #call.entries
  self.calls[id] = call
  for _, entry in ipairs(call.entries) do self.of_text[entry.text] = {call, entry} end
  if call.stream then
    self.count.status[200] = (self.count.status[200] or 0) + 1
    call.begun = true
    local first = {}
    for i, entry in ipairs(kind == "chat" and call.entries or {}) do first[i] = event(answers.part(call, entry, true)) end
    self.http:answer(id, 200, "text/event-stream", table.concat(first), false)
  end
  for _, entry in ipairs(call.entries) do
    if entry.text.ended then deliver(self, entry.text) end
  end
end

local function model_entry(self) return {id = self.model, object = "model", created = self.created, owned_by = "rille"} end

local function metrics(self)
  local c, lines = self.count, {}
  local function add(name, kind, value, labels)
    if not labels or lines[#lines] == nil or not lines[#lines]:find("^" .. name .. "{") then
      lines[#lines + 1] = ("# TYPE %s %s"):format(name, kind)
    end
    lines[#lines + 1] = ("%s%s %s"):format(name, labels or "", value)
  end
  local statuses = {}
  for status in pairs(c.status) do statuses[#statuses + 1] = status end
  table.sort(statuses)
  for _, status in ipairs(statuses) do add("rille_requests_total", "counter", c.status[status], ('{status="%d"}'):format(status)) end
  add("rille_requests_cancelled_total", "counter", c.cancelled)
  add("rille_prompt_tokens_total", "counter", c.prompt)
  add("rille_cached_prompt_tokens_total", "counter", c.cached)
  add("rille_generated_tokens_total", "counter", c.new)
  add("rille_texts_running", "gauge", self.scheduler.running)
  add("rille_texts_waiting", "gauge", #self.scheduler.waiting)
  add("rille_uptime_seconds", "gauge", ("%.1f"):format(rille.clock() - self.started))
  return table.concat(lines, "\n") .. "\n"
end

-- Routes: "METHOD path" -> function(self, id, body).
local routes = {
  ["GET /health"] = function(self, id) reply(self, id, self.closing and 503 or 200, '{"status": "ok"}\n') end,
  ["GET /metrics"] = function(self, id) reply(self, id, 200, metrics(self), "text/plain; version=0.0.4") end,
  ["GET /v1/models"] = function(self, id) reply(self, id, 200, answers.line{object = "list", data = {model_entry(self)}} .. "\n") end,
  ["POST /v1/completions"] = function(self, id, body) begin(self, id, "completion", body) end,
  ["POST /v1/chat/completions"] = function(self, id, body) begin(self, id, "chat", body) end,
}

-- Returns the route of a request. Accepts only JSON as content type, because an HTML form of another site could send
-- a request with another type.
local function route_of(self, method, path, type)
  if method == "HEAD" then method = "GET" end
  if method == "GET" and path == "/v1/models/" .. self.model then
    return function(_, id) reply(self, id, 200, answers.line(model_entry(self)) .. "\n") end
  end
  local other_model = method == "GET" and path:match("^/v1/models/(.+)")
  if other_model then fields.fail(404, "model", "unknown model %q; expected %q", other_model, self.model) end
  local route = routes[method .. " " .. path]
  if not route then
    local other = routes["GET " .. path] and "GET" or routes["POST " .. path] and "POST"
    if other then fields.fail(405, nil, "the method of %s must be %s, found %s", path, other, method) end
    fields.fail(404, nil, "unknown path %s; expected /v1/completions, /v1/chat/completions, /v1/models, /health or /metrics", path)
  end
  if method == "POST" and not type:lower():find("^application/json") then
    fields.fail(415, nil, "Content-Type must be application/json, found %q", type)
  end
  return route
end

-- Handles one request. If the handler raises an error, sends the error as the answer.
function Server:handle(id, method, path, type, body)
  local good, why = pcall(function() return route_of(self, method, path, type)(self, id, body) end)
  if good then return end
  if _G.type(why) == "table" and why.status then return reply_error(self, id, why.status, why.message, why.param) end
  io.stderr:write("rille: serve: ", tostring(why), "\n")
  if self.calls[id] then fail(self, self.calls[id], 500, "internal error") else reply_error(self, id, 500, "internal error") end
end

-- ---- the loop of the server ----

local function each_call(self, fn)
  local list = {}
  for _, call in pairs(self.calls) do list[#list + 1] = call end
  for _, call in ipairs(list) do fn(call) end
end

-- Runs one step of the scheduler. An error ends all calls, because it may leave any slot incomplete.
local function step(self)
  local good, changed = pcall(self.scheduler.step, self.scheduler)
  if good then
    for _, text in ipairs(changed) do deliver(self, text) end
    return
  end
  io.stderr:write("rille: serve: ", tostring(changed), "\n")
  each_call(self, function(call) fail(self, call, 500, "the model failed") end)
  self.scheduler:forget()
  self.failures = (self.failures or 0) + 1
  if self.failures > 2 then error(changed, 0) end
end

-- Handles all requests that have arrived. If no text is running, waits for a request.
local function receive(self)
  local busy = self.scheduler.running > 0 or self.scheduler.waiting[1]
  local wait = busy and 0 or IDLE
  repeat
    local request = table.pack(self.http:receive(wait))
    wait = 0
    if request[1] then self:handle(table.unpack(request, 1, 5)) end
  until not request[1]
end

-- Serves until stopping() returns true. Then finishes the running texts within GRACE seconds, and refuses all
-- other requests.
function Server:run(stopping)
  local until_time
  while true do
    if not self.closing and stopping() then
      self.closing, until_time = true, rille.clock() + GRACE
      each_call(self, function(call)
        if call.left == #call.entries and not call.entries[1].text.reused then fail(self, call, 503, "the server is shutting down") end
      end)
    end
    if self.closing and (next(self.calls) == nil or rille.clock() > until_time) then break end
    receive(self)
    each_call(self, function(call)
      if not self.http:connected(call.id) then drop(self, call) end
    end)
    step(self)
  end
  each_call(self, function(call) fail(self, call, 503, "the server is shutting down") end)
  self.http:close(2)
end

return new
