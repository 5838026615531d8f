-- memory.lua - tests that loading a model needs memory for one copy of its file: the peak of resident memory
-- grows by at most 1.05 times the file's size. The file is sparse, so writing takes no time.
local tap = dofile("t/lib/tap.lua")
local json = require "rille.json"

if tap.sanitized() then
  tap.ok(true, "loading holds one copy # SKIP a sanitizer keeps freed memory")
  tap.done()
end

local dir = tap.folder()

local config = {model_type = "llama", vocab_size = 4000, hidden_size = 1024, intermediate_size = 2752, num_hidden_layers = 8,
  num_attention_heads = 8, num_key_value_heads = 8, max_position_embeddings = 64, rms_norm_eps = 1e-5, tie_word_embeddings = false}
local width, hidden, vocab = config.hidden_size, config.intermediate_size, config.vocab_size

-- Writes the folder with tensors of zeros. Returns the size of the tensors' file, MiB.
local function write()
  local head, at = {}, 0
  local function add(name, ...)
    local n = 2
    for _, size in ipairs{...} do n = n * size end
    head[name] = {dtype = "BF16", shape = {...}, data_offsets = {at, at + n}}
    at = at + n
  end
  add("model.embed_tokens.weight", vocab, width)
  add("lm_head.weight", vocab, width)
  add("model.norm.weight", width)
  for i = 0, config.num_hidden_layers - 1 do
    local layer = ("model.layers.%d."):format(i)
    for _, part in ipairs{"q", "k", "v", "o"} do add(layer .. "self_attn." .. part .. "_proj.weight", width, width) end
    add(layer .. "mlp.gate_proj.weight", hidden, width)
    add(layer .. "mlp.up_proj.weight", hidden, width)
    add(layer .. "mlp.down_proj.weight", width, hidden)
    add(layer .. "input_layernorm.weight", width)
    add(layer .. "post_attention_layernorm.weight", width)
  end
  local text = json.encode(head)
  local file <close> = assert(io.open(dir .. "/model.safetensors", "wb"))
  file:write(string.pack("<s8", text))
  file:seek("set", 8 + #text + at - 1)
  file:write("\0")
  tap.write(dir .. "/config.json", json.encode(config))
  return (8 + #text + at) / 1024 / 1024
end

local child = [[
local function peak()
  local f <close> = io.open("/proc/self/status")
  return f:read("a"):match("VmHWM:%%s*(%%d+)") / 1024
end
local ids = rille.tensor({{1, 2, 3}}, {dtype = "i64"})
-- loads the code before memory is measured
rille.models.llama.new{vocab = 8, length = 8, layers = 1, heads = 2, width = 8}(ids):sum():item()
local before = peak()
local model = rille.models.load("%s", %s)
%s
print(peak() - before)
]]

-- Returns the growth of a child process's peak of resident memory, MiB, while the child loads the folder and runs
-- `code`.
local function growth(options, code)
  local text = tap.run("-d cpu:1", child:format(dir, options, code))
  return tonumber(text) or tap.diag(text) or math.huge
end

local size = write()
local loaded = growth("{}", "")
tap.ok(loaded > 0.9 * size and loaded <= 1.05 * size, ("loading holds one copy: file %.0f MiB, peak %.0f MiB"):format(size, loaded))
local grown = growth('{dtype = "f32"}', "rille.no_grad(function() model(ids):sum():item() end)")
tap.ok(grown <= 1.05 * 2 * size, ("casts while it reads, and runs without another copy: file %.0f MiB, peak %.0f MiB"):format(size, grown))
tap.done()
