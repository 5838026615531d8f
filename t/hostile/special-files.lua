-- special-files.lua - tests that every reader refuses, by name and at once, a path that is not a regular file: a read of a
-- pipe would wait for a writer forever, and a device never ends. Every reader is tried with every kind of path.
local tap = dofile("t/lib/tap.lua")
local json = require "rille.json"
local families = dofile("t/lib/families.lua")

-- Kind of path -> shell command that creates a path of this kind.
local kinds = {pipe = "mkfifo '%s'", device = "ln -s /dev/zero '%s'", folder = "mkdir '%s'", terminal = "ln -s /dev/tty '%s'",
  socket = "perl -MIO::Socket::UNIX -e 'chdir shift; IO::Socket::UNIX->new(Local => \"s\", Listen => 1) or die $!' \"$(dirname '%s')\" && mv \"$(dirname '%s')/s\" '%s'"}

-- {replaced file, code that reads the file}. at: folder of the files.
local readers = {}
local function add(file, code) readers[#readers + 1] = {file, code} end
add("llama/model.safetensors", "rille.models.load(at .. '/llama')")
add("llama/model.safetensors", "rille.models.llama.load(at .. '/llama/model.safetensors')")
add("llama/model.safetensors", "rille.load(at .. '/llama')")
add("llama/config.json", "rille.models.load(at .. '/llama')")
add("llama/config.json", "rille.models.llama.load(at .. '/llama')")
add("llama/tokenizer.json", "rille.tokenizer(at .. '/llama/tokenizer.json')")
add("llama/tokenizer_config.json", "rille.tokenizer(at .. '/llama/tokenizer.json'):chat({{role = 'user', content = 'x'}})")
add("llama/chat_template.jinja", "rille.tokenizer(at .. '/llama/tokenizer.json'):chat({{role = 'user', content = 'x'}})")
add("sharded/model.safetensors.index.json", "rille.models.load(at .. '/sharded')")
add("sharded/model-00001-of-00003.safetensors", "rille.models.load(at .. '/sharded')")
add("torch/pytorch_model.bin", "rille.models.load(at .. '/torch')")
add("torch/pytorch_model.bin.index.json", "rille.models.load(at .. '/torch')")
add("adapter/adapter_config.json", "rille.models.lora(rille.models.load(at .. '/llama'), at .. '/adapter')")
add("adapter/adapter_model.safetensors", "rille.models.lora(rille.models.load(at .. '/llama'), at .. '/adapter')")
add("adapter/adapter_model.bin", "rille.models.lora(rille.models.load(at .. '/llama'), at .. '/adapter')")
add("bert/modules.json", "rille.models.load(at .. '/bert')")
add("bert/1_Pooling/config.json", "rille.models.load(at .. '/bert')")
add("whisper/generation_config.json", "rille.models.load(at .. '/whisper')")
add("vit/preprocessor_config.json", "rille.models.load(at .. '/vit')")
add("vit/processor_config.json", "rille.models.load(at .. '/vit')")
for _, ending in ipairs{"safetensors", "npy", "npz", "gguf", "pt", "pth", "bin"} do add("x." .. ending, ("rille.load(at .. '/x.%s')"):format(ending)) end
for _, ending in ipairs{"gguf", "bin"} do
  add("x." .. ending, ("rille.io.contents(at .. '/x.%s', '%s')"):format(ending, ending == "bin" and "llmc" or ending))
  add("x." .. ending, ("rille.models.load(at .. '/x.%s')"):format(ending))
  add("x." .. ending, ("rille.models.gpt2.load(at .. '/x.%s')"):format(ending))
end
add("x.npy", "rille.load_npy(at .. '/x.npy')")
for _, name in ipairs{"x.json", "tekken.json", "x.model", "x.tiktoken", "x.gguf"} do
  add(name, ("rille.tokenizer(at .. '/%s'%s)"):format(name, name:find("tiktoken") and ", {pattern = 'cl100k'}" or ""))
end
add("x.txt", "rille.tokenizer.train({{file = at .. '/x.txt'}}, {size = 300})")
add("x.txt", "rille.data.text(at .. '/x.txt', {tokenizer = rille.tokenizer(at .. '/llama/tokenizer.json')})")
add("x.csv", "rille.data.csv(at .. '/x.csv')")
add("x.jsonl", "rille.data.chats(at .. '/x.jsonl', {tokenizer = rille.tokenizer(at .. '/llama/tokenizer.json'), length = 8, template = '{{ messages }}'})")
add("x.bin", "rille.data.tokens(at .. '/x.bin', {batch = 1, length = 4})")
add("x.png", "rille.data.image(at .. '/x.png')")
add("state", "rille.checkpoint.load(at .. '/state', {model = rille.nn.Linear(1, 1)})")

-- ---- the folders ----

local at = tap.folder()
local small = rille.models.llama.new{vocab = 262, length = 16, layers = 1, heads = 1, width = 8, hidden = 8}
small:save(at .. "/llama")
small:save(at .. "/sharded", {max_shard_size = "9KB"})
assert(rille._kind(at .. "/sharded/model-00001-of-00003.safetensors") == "file")
rille.tokenizer.train({"abc abd hello"}, {size = 262, special = {"<|end|>"}}):save(at .. "/llama/tokenizer.json")
os.execute(("mkdir -p '%s/adapter' '%s/torch'; cp '%s/llama/config.json' '%s/torch'"):format(at, at, at, at))
local lora = dofile("t/golden/models/lora.lua")[1]
tap.write(at .. "/adapter/adapter_config.json", lora.config)
for file, name in pairs{encoders = "bert", towers = "whisper", ["towers "] = "vit"} do
  for _, entry in ipairs(dofile(("t/golden/models/%s.lua"):format(file:gsub(" ", "")))) do
    if entry.name == name then
      os.execute(("mkdir -p '%s/%s/1_Pooling'"):format(at, name))
      families.write(entry, ("%s/%s"):format(at, name))
    end
  end
end
tap.write(at .. "/bert/modules.json", json.encode{{type = "x.Transformer", path = ""}, {type = "x.Pooling", path = "1_Pooling"}})
tap.write(at .. "/bert/1_Pooling/config.json", json.encode{pooling_mode = "mean"})

-- ---- trying ----

-- One process tries all readers with one kind of path. The test ends a process whose reader waits.
for kind, command in tap.sorted(kinds) do
  local chunk = {("local at = %q\n"):format(at)}
  for i, reader in ipairs(readers) do
    local file = at .. "/" .. reader[1]
    chunk[#chunk + 1] = ([[
do
  os.rename(%q, %q)
  os.execute(%q)
  local good, why = pcall(function() return %s end)
  print(%q, good and "accepted" or (tostring(why):gsub("\n", " ")))
  io.flush()
  os.execute(%q)
  os.rename(%q, %q)
end
]]):format(file, file .. ".kept", command:gsub("%%s", file), reader[2], ("#%d"):format(i), ("rm -rf '%s'"):format(file), file .. ".kept", file)
  end
  local text, wrong = tap.run("-d cpu:1", table.concat(chunk), "timeout 120"), {}
  for i, reader in ipairs(readers) do
    local said = text:match(("#%d\t([^\n]*)"):format(i))
    if not (said and said:find(reader[1]:match("[^/]*$"), 1, true) and (said:find("not a regular file", 1, true) or said:find("Not a directory", 1, true) or kind == "folder")) then
      wrong[#wrong + 1] = ("%s: %s"):format(reader[2], said or "no answer")
    end
  end
  tap.is(wrong, {}, ("%s: each of %d readers refuses it by name"):format(kind, #readers))
  if #wrong > 0 then tap.diag(text:sub(-300)) end
end
tap.done()
