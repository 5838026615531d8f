-- readers.lua - tries random changes of valid texts on every reader that is written in Lua: chat templates, JSON, config.json
-- and the other files of a model's folder, GGUF files, tokenizers' files, tables, conversations, checkpoints, requests of
-- rille serve. A reader must accept the text or refuse it by an error of its own, in little time.
--
--   READER=chat COUNT=1000000 build/release/rille t/hostile/readers.lua      so many texts on one reader
--
-- t/fuzz/fuzz.c does the same for readers in C.
local tap = dofile("t/lib/tap.lua")
local checkpoint = require "rille.checkpoint"
local json = require "rille.json"
local new_server = require "rille.serve.server"
local prepare = require "rille.models.towers.prepare"
local sentences = require "rille.models.sentences"
local golden_chat = dofile("t/golden/text/chat.lua")
local families = dofile("t/lib/families.lua")
local gguf = dofile("t/lib/gguf.lua")

local dir = tap.folder(true)
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

local values = {"null", "true", "false", "-1", "0", "1", "0.5", "1e300", "9007199254740992", "-9223372036854775808", '""', '"x"', "{}", "[]", '[1, "x", null]',
  '{"x": {}}', '"' .. ("y"):rep(300) .. '"'}

-- Replaces, removes, moves or nests a value of a table of JSON.
local function change_value(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end) -- the order of pairs() depends on the process
  local key = keys[math.random(math.max(1, #keys))]
  local value, way = t[key], math.random(8)
  if key == nil then return end
  if type(value) == "table" and value ~= json.null and way > 3 then return change_value(value) end
  if way == 1 and type(key) == "string" then t[key] = nil
  elseif way == 2 then t[key] = json.array{value}
  elseif way == 3 then t[key] = t[keys[math.random(#keys)]]
  elseif way == 4 and type(value) == "number" then t[key] = math.max(-1e300, math.min(1e300, value * ({-1, 2, 1000, 1 << 40, 0.5})[math.random(5)]))
  else t[key] = json.decode(("[%s]"):format(values[math.random(#values)]))[1] end
end

-- Returns a JSON text with other values; any other text unchanged.
local function changed_values(s)
  local good, t = pcall(json.decode, s)
  if not good or type(t) ~= "table" or t == json.null then return s end
  for _ = 1, math.random(2) do change_value(t) end
  return (json.encode(t):gsub("\n *", ""))
end

local function changed(s, other)
  if s:find("^%s*[{%[]") and math.random(2) == 1 then
    local new = changed_values(s)
    if new ~= s then return new end
  end
  for _ = 1, math.random(0, 1) * math.random(4) + 1 do
    if #s == 0 then return s end
    local a = math.random(#s)
    s = ways[math.random(#ways)](s, a, math.min(#s, a + math.random(12)), other)
  end
  return s
end

-- ---- the readers: each has texts, and a function that reads a text ----

-- Name -> reader. read(text, i) reads a text that was made from texts[i].
local readers = {}
collectgarbage("generational") -- models are short-lived; 1.3 to 2 times as many texts per second

local tokenizer = rille.tokenizer("t/golden/text/tokenizer.json")
local conversation = {{role = "system", content = "be"}, {role = "user", content = "hello"}, {role = "assistant", content = "hi"}, {role = "user", content = "x"}}
readers.chat = {texts = {}, read = function(text)
  tokenizer:chat(conversation, {template = text, add_generation_prompt = true, variables = {bos_token = "<s>", eos_token = "</s>"}})
end}
for _, text in tap.sorted(dofile("t/golden/text/chat-templates.lua")) do
  for _ = 1, #text < 1000 and 3 or 1 do table.insert(readers.chat.texts, text) end -- short texts are tried in less time
end
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

-- ---- readers of a model's folder ----

-- Returns a value as text; equal tables have equal texts.
local function as_text(v)
  if type(v) ~= "table" then return ("%s %s"):format(math.type(v) or type(v), v) end
  local list = {}
  for key, value in tap.sorted(v) do list[#list + 1] = ("%s=%s"):format(key, as_text(value)) end
  return "{" .. table.concat(list, ",") .. "}"
end

local tries_configs = false -- true while a reader of config.json runs

-- Makes a kind of model build one model for each config while configs are tried: most accepted texts have a config that was
-- tried before, and building is nine tenths of their time.
local function build_once(kind)
  local empty, built = kind.empty, {}
  function kind.empty(config, where)
    if not tries_configs then return empty(config, where) end
    local good, key = pcall(as_text, config)
    if good and built[key] then error("built before", 0) end
    local model = empty(config, where)
    if good then built[key] = true end
    return model
  end
end

-- Returns a reader of config.json in folders of entries of a golden list (families.lua).
local function of_configs(golden, names)
  local texts, dirs = {}, {}
  for _, entry in ipairs(golden) do
    if names[entry.name] then
      local at = ("%s/%s"):format(dir, entry.name:gsub(" ", "-"))
      os.execute(("mkdir '%s'"):format(at))
      families.write(entry, at)
      build_once((families.kind(entry)))
      dirs[#dirs + 1], texts[#texts + 1] = at, entry.config
    end
  end
  return {texts = texts, read = function(text, i)
    tap.write(dirs[i] .. "/config.json", text)
    tries_configs = true
    local good, why = pcall(rille.models.load, dirs[i])
    tries_configs = false
    if not good then error(why, 0) end
  end}
end

local function set(list)
  local t = {}
  for _, name in ipairs(list) do t[name] = true end
  return t
end

local golden_families, encoders, towers = dofile("t/golden/models/families.lua"), dofile("t/golden/models/encoders.lua"), dofile("t/golden/models/towers.lua")
readers.config = of_configs(golden_families, set{"llama", "qwen2", "gemma2", "mixtral", "deepseek_v3"})
readers.encoders = of_configs(encoders, set{"bert", "roberta classes", "distilbert base", "modernbert"})
readers.towers = of_configs(towers, set{"vit", "dinov2", "clip", "siglip vision", "t5", "whisper", "resnet", "convnextv2"})

-- The files beside config.json are read by the functions that models.load calls for them, because a load costs more.
os.execute(("mkdir -p '%s/pooling/1_Pooling' '%s/modules/1_Pooling'"):format(dir, dir))
tap.write(dir .. "/pooling/modules.json", '[{"type": "x.Transformer", "path": ""}, {"type": "x.Pooling", "path": "1_Pooling"}]')
readers.pooling = of_file(dir .. "/pooling/1_Pooling/config.json", {'{"word_embedding_dimension": 32, "pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true}',
  '{"pooling_mode": "mean"}'}, function() sentences.read(dir .. "/pooling") end)
tap.write(dir .. "/modules/1_Pooling/config.json", '{"pooling_mode": "mean"}')
readers.modules = of_file(dir .. "/modules/modules.json", {'[{"idx": 0, "type": "x.Transformer", "path": ""}, {"idx": 1, "type": "x.Pooling", "path": "1_Pooling"}, {"type": "x.Normalize", "path": "2"}]'},
  function() sentences.read(dir .. "/modules") end)

for _, entry in ipairs(towers) do
  if entry.name == "whisper" then
    local _, kind = require("rille.models.loading.kinds").of("whisper")
    local contents = rille.io.contents(dir .. "/whisper/model.safetensors")
    readers.generation = of_file(dir .. "/whisper/generation_config.json", {'{"suppress_tokens": [16, 27, -1], "begin_suppress_tokens": [3], "eos_token_id": [1, 2],' ..
      '"decoder_start_token_id": 4, "forced_decoder_ids": [[1, 5]]}'}, function() kind.from_config(families.words(entry), contents, dir .. "/whisper") end)
  end
end

local picture, vision = rille.zeros({3, 20, 18}, {dtype = "u8"}), rille.models.load(dir .. "/vit")
readers.pictures = of_file(dir .. "/vit/preprocessor_config.json", {'{"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 16}, "crop_size": ' ..
  '{"height": 16, "width": 16}, "do_center_crop": true, "do_resize": true, "resample": 3, "image_mean": [0.5, 0.5, 0.5], "image_std": [1, 0.5, 0.5], "rescale_factor": 0.004}',
  '{"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 224}, "crop_pct": 0.9}', '{"feature_extractor_type": "ViTFeatureExtractor", "size": 8}'}, function()
  vision.config.pixels = prepare.read(dir .. "/vit")
  vision:prepare(picture)
end)

local base, adapter = dir .. "/llama", dir .. "/adapter"
os.execute(("mkdir '%s'"):format(adapter))
local plain = rille.models.load(base)
plain:save(dir .. "/sharded", {max_shard_size = "2KB"})
readers.index = of_file(dir .. "/sharded/model.safetensors.index.json", {tap.read(dir .. "/sharded/model.safetensors.index.json")}, function()
  rille.load(dir .. "/sharded")
end)

local lora = dofile("t/golden/models/lora.lua")[1]
assert(lora.family == "llama")
local parts, without = {}, plain
for _, one in ipairs(lora.tensors) do parts[one[1]] = rille.ones(one[2]) end
rille.save(adapter .. "/adapter_model.safetensors", parts)
readers.adapter = of_file(adapter .. "/adapter_config.json", {lora.config}, function()
  local model = without or rille.models.load(base)
  without = nil -- the model has adapters if the call succeeds
  local good, why = pcall(rille.models.lora, model, adapter)
  if not good then
    without = model
    error(why, 0)
  end
end)

-- ---- readers of other files ----

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

readers.csv = of_file(dir .. "/x.csv", {'a,b,"c, d"\n1,2.5,-3e4\n4,nan,"6"\n', "1,2\n3,4\r\n5,6\n"}, function(path) rille.data.csv(path, {header = true}) end)
readers.chats = of_file(dir .. "/x.jsonl", {'{"prompt": "hello ", "completion": "world"}\n', json.encode{messages = conversation}:gsub("\n *", "") .. "\n"}, function(path)
  rille.data.chats(path, {tokenizer = tokenizer, length = 16, template = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}"})
end)
readers.template = of_file(dir .. "/tokenizer_config.json", {json.encode{chat_template = readers.chat.texts[1], bos_token = "<s>", eos_token = {content = "</s>"}}}, function()
  rille.tokenizer(dir .. "/small.json"):chat(conversation, {add_generation_prompt = true})
end)

do -- the state in a checkpoint; the checksum of checkpoint files would refuse every change
  local net = rille.nn.Linear(2, 2)
  local opt, contents = rille.optim.Adam(net:parameters()), {}
  local all = {model = net, optimizer = opt, data = rille.data.loader{rille.zeros{4, 2}, batch = 2}}
  local text, tensors = checkpoint._state("x", all, {a = {1, 2, "b"}})
  for name, t in pairs(tensors) do table.insert(contents, {name = name, shape = t.shape, dtype = t.dtype}) end
  readers.checkpoint = {texts = {text}, read = function(changed_text)
    local good, why = checkpoint._restore("x", "x", changed_text, contents, all, function() return tensors end)
    if not good then error(why, 0) end
  end}
end

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
  local schema = json.encode{model = "m", messages = {{role = "user", content = {{type = "text", text = "a"}}}}, max_tokens = 1, response_format = {type = "json_schema",
    json_schema = {name = "s", strict = true, schema = {type = "object", required = {"a", "b"}, additionalProperties = false, ["$defs"] = {d = {enum = {1, "x", json.null}}},
      properties = {a = {type = "array", items = {["$ref"] = "#/$defs/d"}, maxItems = 3}, b = {anyOf = {{type = "string", pattern = "^[a-c]{2,4}$"}, {type = "number", minimum = 0.5, maximum = 9}}},
        c = {type = "string", format = "date", minLength = 1}}}}}}
  local id = 0
  readers.serve = {texts = {chat, completion, schema}, read = function(text)
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
      local i = math.random(#reader.texts)
      local text = changed(reader.texts[i], reader.texts[math.random(#reader.texts)])
      local before = os.clock()
      local good, why = pcall(reader.read, text, i)
      local fault = fault_of(good, why, os.clock() - before)
      accepted = accepted + ((good or tostring(why):find("built before$")) and 1 or 0)
      if fault and #found < 5 then found[#found + 1] = ("%s\nof %q"):format(fault, text) end
    end
    for _, text in ipairs(found) do tap.diag(text) end
    tap.ok(#found == 0, ("%s: %d changed texts, of which %d are accepted, do no harm; %.1f s"):format(name, COUNT, accepted, os.clock() - began))
  end
end
tap.done()
