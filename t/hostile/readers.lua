-- readers.lua - tries random changes of valid texts on every reader that is written in Lua: chat templates, JSON, config.json,
-- adapter_config.json, GGUF files, tokenizers' files, requests of rille serve. A reader must accept the text or refuse
-- it by an error of its own, in little time.
--
--   READER=chat COUNT=1000000 build/release/rille t/hostile/readers.lua      so many texts on one reader
--
-- t/fuzz/fuzz.c does the same for readers in C.
local tap = dofile("t/lib/tap.lua")
local json = require "rille.json"
local new_server = require "rille.serve.server"
local golden_chat = dofile("t/golden/text/chat.lua")
local families = dofile("t/lib/families.lua")
local gguf = dofile("t/lib/gguf.lua")

local dir = tap.folder()
local COUNT, ONE = tonumber(os.getenv("COUNT")) or 40, os.getenv("READER")
local SECONDS <const> = 5 -- maximum processor time per text, s

-- ---- changing a text ----

local words = {"{", "}", "[", "]", "\"", ":", ",", "null", "true", "-1", "0", "1e999", "9223372036854775807", "0.5", "\"\"", "{}", "[]", "\\u0000", "\xff", "\0",
  "{%", "%}", "{{", "}}", " if ", " for ", " in ", "endif", "endfor", "|", "(", ")", "loop", "range(9999999)", ".", " is ", "not ", "macro ", "set x=", "~", "*", "%", "'", "\n", "é"}

local function replaced(s, from, to, by) return s:sub(1, from - 1) .. by .. s:sub(to + 1) end

-- Ways to change a text: each returns the text with a change between the positions a and b.
local ways = {
  function(s, a) return replaced(s, a, a, string.char(math.random(0, 255))) end,
  function(s, a, b) return replaced(s, a, b, "") end,
  function(s, a) return replaced(s, a, a - 1, words[math.random(#words)]) end,
  function(s, a, b) return replaced(s, a, b, words[math.random(#words)]) end,
  function(s, a, b) return replaced(s, a, a - 1, s:sub(a, b):rep(math.random(3))) end,
  function(s, a) return s:sub(1, a) end,
  function(s, a, b, other) -- a passage of another text
    local c = math.random(#other)
    return replaced(s, a, b, other:sub(c, c + math.random(40)))
  end,
  function(s, a) -- the next value of a JSON text
    local from, to = s:find("[%w%.%-]+", a)
    return from and replaced(s, from, to, words[math.random(#words)]) or s
  end,
}

local function changed(s, other)
  for _ = 1, math.random(0, 1) * math.random(4) + 1 do
    if #s == 0 then return s end
    local a = math.random(#s)
    s = ways[math.random(#ways)](s, a, math.min(#s, a + math.random(12)), other)
  end
  return s
end

-- ---- the readers: each has texts, and a function that reads a text ----

local readers = {}

local tokenizer = rille.tokenizer("t/golden/text/tokenizer.json")
local conversation = {{role = "system", content = "be"}, {role = "user", content = "hello"}, {role = "assistant", content = "hi"}, {role = "user", content = "x"}}
readers.chat = {texts = {}, read = function(text)
  tokenizer:chat(conversation, {template = text, add_generation_prompt = true, variables = {bos_token = "<s>", eos_token = "</s>"}})
end}
for _, text in tap.sorted(dofile("t/golden/text/chat-templates.lua")) do table.insert(readers.chat.texts, text) end
readers.messages = {texts = {}, read = function(text) tokenizer:chat(text, {template = readers.chat.texts[1]}) end}
for _, c in ipairs(golden_chat.conversations) do table.insert(readers.messages.texts, c.text) end

readers.json = {texts = {golden_chat.tokens, golden_chat.options[1], '{"a": [1, 2.5, null, {"b": "\\u00e9"}], "c": true}'}, read = function(text)
  json.encode(json.decode(text, "x"))
end}

-- Returns a reader of one file of a folder; the folder's other files stay.
local function of_file(path, texts, read)
  return {texts = texts, read = function(text)
    tap.write(path, text)
    read(path)
  end}
end

local entries = {}
for _, entry in ipairs(dofile("t/golden/models/families.lua")) do entries[entry.name] = entry end
local configs = {}
for _, name in ipairs{"llama", "qwen2", "gemma2", "mixtral", "deepseek_v3"} do
  if entries[name] then configs[#configs + 1] = entries[name].config end
end
local base, adapter = dir .. "/base", dir .. "/adapter"
os.execute(("mkdir '%s' '%s'"):format(base, adapter))
families.write(entries.llama, base)
readers.config = of_file(base .. "/config.json", configs, function() rille.models.load(base) end)

local plain = rille.models.load(base)
local lora = dofile("t/golden/models/lora.lua")[1]
assert(lora.family == "llama")
local parts = {}
for _, one in ipairs(lora.tensors) do parts[one[1]] = rille.ones(one[2]) end
rille.save(adapter .. "/adapter_model.safetensors", parts)
readers.adapter = of_file(adapter .. "/adapter_config.json", {lora.config}, function()
  rille.models.lora(rille.models.load(base), adapter)
end)

local model_of_gguf = dofile("t/golden/models/gguf_files.lua")[1]
gguf.write(dir .. "/x.gguf", model_of_gguf.metadata, tap.list(gguf.tensors(model_of_gguf, rille.load(base .. "/model.safetensors")),
  function(t) return gguf.f32(t[1], t[2]) end))
local whole = tap.read(dir .. "/x.gguf")
local HEAD <const> = 3000 -- only these bytes of the GGUF file change
readers.gguf = {texts = {whole:sub(1, HEAD)}, read = function(text) rille.models.load(tap.write(dir .. "/x.gguf", text .. whole:sub(HEAD + 1))) end}

readers.tokenizer = of_file(dir .. "/tokenizer.json", {tap.read("t/golden/text/tokenizer.json"):sub(1, 20000)}, rille.tokenizer)
rille.tokenizer.train({"abc abd hello"}, {size = 262, special = {"<|end|>"}}):save(dir .. "/small.json")
table.insert(readers.tokenizer.texts, tap.read(dir .. "/small.json"))
readers.sentencepiece = of_file(dir .. "/x.model", {}, rille.tokenizer)
for _, kind in ipairs{"bpe", "bytes", "suffix", "unigram"} do
  table.insert(readers.sentencepiece.texts, tap.read("t/golden/text/kinds-" .. kind .. ".model"))
end
local lines, ranks = {}, {}
for line, bytes, rank in dofile("t/lib/strings.lua").tiktoken():gmatch("((%S+) (%d+)\n)") do
  if #lines < 260 then lines[#lines + 1], ranks[#ranks + 1] = line, {rank = tonumber(rank), token_bytes = bytes} end
end
readers.tekken = of_file(dir .. "/tekken.json", {json.encode{config = {pattern = "\\w+|\\s+", default_vocab_size = #ranks + 2, default_num_special_tokens = 2},
  special_tokens = {{rank = 0, token_str = "<unk>", is_control = true}, {rank = 1, token_str = "<s>", is_control = true}}, vocab = ranks}}, rille.tokenizer)
readers.tiktoken = of_file(dir .. "/x.tiktoken", {table.concat(lines)}, function(path) rille.tokenizer(path, {pattern = "cl100k"}) end)

-- Requests: an answer with the status 500 is a fault of the server.
do
  local http, request, status = {}, nil, nil
  function http.receive()
    local r = request or {}
    request = nil
    return table.unpack(r)
  end
  function http.close() end
  function http.connected() return false end
  function http.drop() end
  function http.send() return false end
  function http.answer(_, _, s) status = s return false end
  local served, template = dir .. "/served", nil
  for _, text in ipairs(readers.chat.texts) do template = text:find("<tool_call>", 1, true) and text or template end
  os.execute(("mkdir '%s'; cp t/golden/text/tokenizer.json '%s'"):format(served, served))
  tap.write(served .. "/tokenizer_config.json", json.encode{chat_template = template})
  local model = rille.models.llama.new{vocab = tokenizer.size, length = 2000, layers = 1, heads = 1, width = 8, hidden = 8}
  local server = new_server{http = http, scheduler = model:scheduler{slots = 2, chunk = 8}, tokenizer = rille.tokenizer(served .. "/tokenizer.json"), model = "m",
    length = 2000, vocab = model.config.vocab, stops = {}, queue = 100}
  local chat = json.encode{model = "m", messages = {{role = "user", content = "a"}}, max_tokens = 2, temperature = 0.5, stream = true, stop = {"x"},
    tools = {{type = "function", ["function"] = {name = "f", parameters = {type = "object", properties = {a = {type = "integer"}}}}}}, tool_choice = "auto",
    response_format = {type = "json_object"}, logit_bias = {["5"] = 1}, n = 1, seed = 3}
  local completion = json.encode{model = "m", prompt = {"a", "b"}, max_tokens = 1, logprobs = 1, top_p = 0.5, presence_penalty = 0.1}
  local id = 0
  readers.serve = {texts = {chat, completion}, read = function(text)
    id, status, server.closing = id + 1, nil, nil
    request = {id, "POST", text:find("prompt", 1, true) and "/v1/completions" or "/v1/chat/completions", "application/json", text}
    server:run(function() return not request and next(server.calls) == nil end)
    if status == 500 then error("attempt to answer 500", 0) end
    if status and status ~= 200 then error("refused", 0) end
  end}
end

-- ---- trying the texts ----

-- Errors of Lua itself, which a reader's checks should have prevented.
local faults = {"attempt to", "bad argument", "stack overflow", "not enough memory", "assertion", "number has no integer representation", "table index is", "invalid value %(", "string slice"}

local function fault_of(good, why, seconds)
  if seconds > SECONDS then return ("took %.1f s"):format(seconds) end
  if good then return nil end
  if type(why) ~= "string" then return "raised " .. type(why) end
  for _, text in ipairs(faults) do
    if why:find(text) then return why end
  end
end

math.randomseed(tap.seed(tonumber(os.getenv("SEED")) or 1))
for name, reader in tap.sorted(readers) do
  if not ONE or ONE == name then
    local found, accepted, began = {}, 0, os.clock()
    for _ = 1, COUNT do
      local text = changed(reader.texts[math.random(#reader.texts)], reader.texts[math.random(#reader.texts)])
      local before = os.clock()
      local good, why = pcall(reader.read, text)
      local fault = fault_of(good, why, os.clock() - before)
      accepted = accepted + (good and 1 or 0)
      if fault and #found < 5 then found[#found + 1] = ("%s\nof %q"):format(fault, text) end
    end
    for _, text in ipairs(found) do tap.diag(text) end
    tap.ok(#found == 0, ("%s: %d changed texts, of which %d are accepted, do no harm; %.1f s"):format(name, COUNT, accepted, os.clock() - began))
  end
end
tap.done()
