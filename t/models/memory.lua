-- memory.lua - tests that loading a model needs memory for one copy of its parameters: the peak of a process's resident
-- memory is at most 1.05 times the bytes of the parameters, for every kind of file, for each dtype, and on 2 and 4
-- devices. The memory of a process that loads nothing is subtracted. The environment variable MIB sets the size of the
-- parameters; ONLY selects kinds. The files are sparse, so writing takes no time.
local tap = dofile("t/lib/tap.lua")
local json = require "rille.json"
local crc32 = dofile("t/lib/crc32.lua")

if tap.sanitized() then
  tap.ok(true, "loading holds one copy # SKIP a sanitizer keeps freed memory")
  tap.done()
end

local dir = tap.folder() .. "/x"
-- Approximate sizes of the parameters, bytes. Rounded models are larger: their code, the ends of huge pages and the float
-- values of one weight need about 17 MiB, whatever the size of the model.
local NEEDED = (tonumber(os.getenv("MIB")) or 300) << 20
local NEEDED_ROUNDED <const> = 2 * NEEDED
local WIDTH, HIDDEN, HEADS, KV_HEADS, VOCAB = 1536, 5120, 12, 4, 16000
local SIZE = {F32 = 4, BF16 = 2, F16 = 2}

-- ---- the model: its tensors, and its config.json ----

-- Returns the list of a model's tensors {Hugging Face's name, GGUF's name, shape}.
local function tensors_of(layers)
  local list = {{"model.embed_tokens.weight", "token_embd.weight", {VOCAB, WIDTH}}, {"lm_head.weight", "output.weight", {VOCAB, WIDTH}},
    {"model.norm.weight", "output_norm.weight", {WIDTH}}}
  local key = WIDTH // HEADS * KV_HEADS
  for i = 0, layers - 1 do
    for _, t in ipairs{{"self_attn.q_proj", "attn_q", {WIDTH, WIDTH}}, {"self_attn.k_proj", "attn_k", {key, WIDTH}},
      {"self_attn.v_proj", "attn_v", {key, WIDTH}}, {"self_attn.o_proj", "attn_output", {WIDTH, WIDTH}},
      {"mlp.gate_proj", "ffn_gate", {HIDDEN, WIDTH}}, {"mlp.up_proj", "ffn_up", {HIDDEN, WIDTH}}, {"mlp.down_proj", "ffn_down", {WIDTH, HIDDEN}},
      {"input_layernorm", "attn_norm", {WIDTH}}, {"post_attention_layernorm", "ffn_norm", {WIDTH}}} do
      list[#list + 1] = {("model.layers.%d.%s.weight"):format(i, t[1]), ("blk.%d.%s.weight"):format(i, t[2]), t[3]}
    end
  end
  return list
end

local function elements(shape) return shape[1] * (shape[2] or 1) end

-- Returns the sum of bytes(shape, Hugging Face's name) over all tensors.
local function bytes_of(list, bytes)
  local n = 0
  for _, t in ipairs(list) do n = n + bytes(t[3], t[1]) end
  return n
end

-- Returns the tensors of the model whose parameters have about NEEDED bytes, and these bytes.
local function sized(bytes, needed)
  local one, two = bytes_of(tensors_of(1), bytes), bytes_of(tensors_of(2), bytes)
  local layers = 1 + math.ceil((needed - one) / (two - one))
  return tensors_of(layers), one + (layers - 1) * (two - one), layers
end

local function write_config(layers, more)
  local config = {model_type = "llama", vocab_size = VOCAB, hidden_size = WIDTH, intermediate_size = HIDDEN, num_hidden_layers = layers,
    num_attention_heads = HEADS, num_key_value_heads = KV_HEADS, max_position_embeddings = 64, rms_norm_eps = 1e-5, tie_word_embeddings = false}
  for key, value in pairs(more or {}) do config[key] = value end
  tap.write(dir .. "/config.json", json.encode(config))
end

-- ---- sparse files ----

-- Writes a file of `bytes` bytes that begins with `head`; the rest is zero.
local function write_sparse(path, head, bytes)
  local file <close> = assert(io.open(path, "wb"))
  file:write(head)
  file:seek("set", bytes - 1)
  file:write("\0")
end

-- Writes a safetensors file. list: {name, dtype, shape}.
local function write_safetensors(path, list)
  local head, at = {}, 0
  for _, t in ipairs(list) do
    local n = elements(t[3]) * (SIZE[t[2]] or t[2] == "I32" and 4 or 1)
    head[t[1]] = {dtype = t[2], shape = json.array(t[3]), data_offsets = {at, at + n}}
    at = at + n
  end
  local text = json.encode(head)
  write_sparse(path, string.pack("<s8", text), 8 + #text + at)
end

-- Writes a file of torch.save: a zip file whose members for the storages are sparse.
local function write_torch(path, list)
  local function text(s) return string.pack("<c1s4", "X", s) end
  local function int(i) return string.pack("<c1i4", "J", i) end
  local pickle = {"\x80\2}("}
  for i, t in ipairs(list) do
    local n, rows, columns = elements(t[3]), table.unpack(t[3])
    pickle[#pickle + 1] = text(t[1]) .. "ctorch._utils\n_rebuild_tensor_v2\n((" .. text"storage" .. "ctorch\n" .. t[2] .. "Storage\n" .. text(tostring(i)) ..
      text"cpu" .. int(n) .. "tQ" .. int(0) .. "(" .. int(rows) .. (columns and int(columns) or "") .. "t(" .. (columns and int(columns) or "") ..
      int(1) .. "t\x89ccollections\nOrderedDict\n)RtR"
  end
  local file <close> = assert(io.open(path, "wb"))
  local records, at = {}, 0
  local function member(name, bytes, n)
    local common = string.pack("<I2I2I2I2I2I4I4I4I2I2", 0, 0, 0, 0, 33, crc32(bytes, n - #bytes), n, n, #name, 0)
    file:seek("set", at)
    file:write("PK\3\4", common, name, bytes)
    records[#records + 1] = "PK\1\2\0\0" .. common .. string.pack("<I2I2I2I4I4", 0, 0, 0, 0, at) .. name
    at = at + 30 + #name + n
  end
  local whole = table.concat(pickle) .. "u."
  member("model/data.pkl", whole, #whole)
  for i, t in ipairs(list) do member("model/data/" .. i, "", elements(t[3]) * (t[2] == "Float" and 4 or 2)) end
  local directory = table.concat(records)
  file:seek("set", at)
  file:write(directory, string.pack("<c4I2I2I2I2I4I4I2", "PK\5\6", 0, 0, #records, #records, #directory, at, 0))
end

-- GGUF's types: number, bytes and elements of a block.
local gguf_types = {F32 = {0, 4, 1}, F16 = {1, 2, 1}, BF16 = {30, 2, 1}, Q4_0 = {2, 18, 32}, Q8_0 = {8, 34, 32}, Q4_K = {12, 144, 256},
  Q5_K = {13, 176, 256}, Q6_K = {14, 210, 256}, MXFP4 = {39, 17, 32}}

-- Returns the function from a shape to the bytes of the tensor in a GGUF file. Vectors are F32.
local function gguf_bytes(kind)
  return function(shape)
    local _, bytes, each = table.unpack(gguf_types[shape[2] and kind or "F32"])
    return elements(shape) // each * bytes
  end
end

local function write_gguf(path, list, layers, kind)
  local metadata = {}
  local function set(key, form, code, value) metadata[#metadata + 1] = string.pack("<s8I4" .. form, key, code, value) end
  set("general.architecture", "s8", 8, "llama")
  for key, value in pairs{context_length = 64, embedding_length = WIDTH, block_count = layers, feed_forward_length = HIDDEN,
    ["attention.head_count"] = HEADS, ["attention.head_count_kv"] = KV_HEADS} do
    set("llama." .. key, "I4", 4, value)
  end
  set("llama.attention.layer_norm_rms_epsilon", "f", 6, 1e-5)
  local head, bytes, at = {string.pack("<c4I4I8I8", "GGUF", 3, #list, #metadata), table.concat(metadata)}, gguf_bytes(kind), 0
  for _, t in ipairs(list) do
    local rows, columns = table.unpack(t[3])
    head[#head + 1] = string.pack("<s8I4", t[2], #t[3]) .. string.pack(columns and "<I8I8" or "<I8", columns or rows, rows):sub(1, 8 * #t[3]) ..
      string.pack("<I4I8", gguf_types[columns and kind or "F32"][1], at)
    at = at + (bytes(t[3]) + 31) // 32 * 32
  end
  head = table.concat(head)
  head = head .. ("\0"):rep(-#head % 32)
  write_sparse(path, head, #head + at)
end

-- ---- kinds of files: each writes a file or a folder for these tensors, and returns its path ----

local function with_dtype(list, dtype)
  return tap.list(list, function(t) return {t[1], dtype, t[3]} end)
end

local kinds = {}

for _, dtype in ipairs{"F32", "BF16", "F16"} do
  kinds["safetensors " .. dtype] = function(list, layers)
    write_config(layers)
    write_safetensors(dir .. "/model.safetensors", with_dtype(list, dtype))
    return dir
  end
  kinds["torch " .. dtype] = function(list, layers)
    write_config(layers)
    write_torch(dir .. "/pytorch_model.bin", with_dtype(list, ({F32 = "Float", BF16 = "BFloat16", F16 = "Half"})[dtype]))
    return dir
  end
end

-- Writes a folder of Hugging Face's cache: names of three shards, which are links.
kinds["safetensors in shards"] = function(list, layers)
  write_config(layers)
  local index, shards = {}, {{}, {}, {}}
  for i, t in ipairs(with_dtype(list, "BF16")) do
    local k = i * 3 // (#list + 1) + 1
    table.insert(shards[k], t)
    index[t[1]] = ("model-0000%d-of-00003.safetensors"):format(k)
  end
  for k, shard in ipairs(shards) do
    write_safetensors(("%s/blob%d"):format(dir, k), shard)
    os.execute(("ln -s blob%d '%s/model-0000%d-of-00003.safetensors'"):format(k, dir, k))
  end
  tap.write(dir .. "/model.safetensors.index.json", json.encode{metadata = {total_size = 0}, weight_map = index})
  return dir
end

for kind in pairs(gguf_types) do
  kinds["GGUF " .. kind] = function(list, layers)
    write_gguf(dir .. "/x.gguf", list, layers, kind)
    return dir .. "/x.gguf"
  end
end

-- Writes a folder of low-bit weights. parts(name, rows, columns): the tensors that store a linear layer's weight.
local function low_bit(config, parts)
  return function(list, layers)
    local stored = {}
    for _, t in ipairs(list) do
      local name = t[1]:match("^(model%.layers.*proj)%.weight$")
      for _, part in ipairs(name and parts(name, t[3][1], t[3][2]) or {{t[1], "BF16", t[3]}}) do stored[#stored + 1] = part end
    end
    write_config(layers, {quantization_config = config})
    write_safetensors(dir .. "/model.safetensors", stored)
    return dir
  end
end

kinds.GPTQ = low_bit({quant_method = "gptq", bits = 4, group_size = 128}, function(name, rows, columns)
  return {{name .. ".qweight", "I32", {columns // 8, rows}}, {name .. ".qzeros", "I32", {columns // 128, rows // 8}},
    {name .. ".scales", "F16", {columns // 128, rows}}}
end)
kinds.AWQ = low_bit({quant_method = "awq", bits = 4, group_size = 128, version = "gemm"}, function(name, rows, columns)
  return {{name .. ".qweight", "I32", {columns, rows // 8}}, {name .. ".qzeros", "I32", {columns // 128, rows // 8}},
    {name .. ".scales", "F16", {columns // 128, rows}}}
end)
kinds.FP8 = low_bit({quant_method = "fp8", weight_block_size = {128, 128}}, function(name, rows, columns)
  return {{name .. ".weight", "F8_E4M3", {rows, columns}}, {name .. ".weight_scale_inv", "F32", {rows // 128, columns // 128}}}
end)

-- ---- loading ----

-- Runs code in a child process. Returns the peak of its resident memory, MiB, or its error.
local function peak_of(devices, code)
  local text = tap.run("-d cpu:" .. devices, code .. [[

local f <close> = io.open("/proc/self/status")
print(f:read("a"):match("VmHWM:%s*(%d+)") / 1024)
]])
  return tonumber(text) or tap.diag(text) or math.huge
end

local function bytes_in(dtype)
  return function(shape) return elements(shape) * SIZE[dtype] end
end

-- Returns the function from a tensor's shape and name to the bytes of its parameter in a model of this dtype. Linear layers
-- have int8 weights with a scale for each row, or blocks of 32 numbers with 18 bytes.
local function rounded(method, dtype)
  return function(shape, name)
    if not shape[2] or name:find("embed") then return elements(shape) * SIZE[dtype] end
    return method == "int8" and elements(shape) + shape[1] * SIZE[dtype] or elements(shape) // 32 * 18
  end
end

-- Folders that Rille has saved with quantized weights.
for _, method in ipairs{"int8", "int4"} do
  kinds["own " .. method] = function(list, layers)
    local path = kinds["safetensors BF16"](list, layers)
    local text = tap.run("-d cpu:1", ('rille.models.load("%s", {quantize = "%s"}):save("%s/own")\nprint("saved")'):format(path, method, path))
    assert(text:find("saved"), text)
    return path .. "/own"
  end
end

local empty = {} -- number of devices -> peak of a process that loads nothing, MiB

-- Loads a file of this kind in a child process, and compares the peak of its memory with the parameters' bytes.
local function test(kind, options, bytes, devices)
  local list, needed, layers = sized(bytes, options:find('quantize = "int') and NEEDED_ROUNDED or NEEDED)
  os.execute(("mkdir '%s'"):format(dir))
  local path = kinds[kind](list, layers)
  if devices > 1 then options = options .. (" placement = rille.placement('cpu', {0, %d}), parallel = {tensor = 0}"):format(devices - 1) end
  empty[devices] = empty[devices] or peak_of(devices, "")
  local peak = peak_of(devices, ('rille.models.load("%s", {%s})'):format(path, options))
  os.execute(("rm -r '%s'"):format(dir))
  needed = needed / 2 ^ 20
  tap.ok(peak > 0.9 * needed and peak - empty[devices] <= 1.05 * needed, ("%s %s on %d devices: the parameters need %.0f MiB, the peak is %.0f, %.3f times, beside the program's %.0f"):format(
    kind, options:match('^(%w+ = "%w+")') or "", devices, needed, peak - empty[devices], (peak - empty[devices]) / needed, empty[devices]))
end

-- All kinds with the dtypes of their models: {kind, options, bytes(shape), devices}.
local cases = {}
local function add(kind, options, bytes, ...) cases[#cases + 1] = {kind, options, bytes, {1, ...}} end
for _, dtype in ipairs{"F32", "BF16", "F16"} do
  add("torch " .. dtype, "", bytes_in(dtype))
  add("GGUF " .. dtype, "", bytes_in"F32") -- vectors are F32, so the model is
  for _, to in ipairs{"F32", "BF16", "F16"} do
    add("safetensors " .. dtype, to == dtype and "" or ('dtype = "%s",'):format(to:lower()), bytes_in(to), dtype == "BF16" and 2, dtype == "BF16" and 4)
  end
end
for _, kind in ipairs{"GPTQ", "AWQ", "FP8", "safetensors in shards"} do add(kind, "", bytes_in"BF16") end
for _, kind in ipairs{"Q4_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "MXFP4"} do
  add("GGUF " .. kind, 'quantize = "keep",', gguf_bytes(kind), kind == "Q8_0" and 2, kind == "Q4_K" and 4)
end
for _, method in ipairs{"int8", "int4"} do
  add("safetensors BF16", ('quantize = "%s",'):format(method), rounded(method, "BF16"), 2)
  add("safetensors F32", ('quantize = "%s",'):format(method), rounded(method, "F32"))
  add("own " .. method, "", rounded(method, "BF16"), 2)
end
add("GGUF Q8_0", "", bytes_in"F32")
add("GGUF Q4_K", 'dtype = "bf16",', bytes_in"BF16")
local only = os.getenv("ONLY") -- pattern of the kinds to test, such as "own"
for _, case in ipairs(cases) do
  for _, devices in ipairs(case[4]) do
    if devices and (only and (case[1] .. case[2]):find(only) or not only and tap.share()) then test(case[1], case[2], case[3], devices) end
  end
end
tap.done()
