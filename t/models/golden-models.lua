-- golden-models.lua - tests that a tiny GPT-2 and Llama match Hugging Face's models (t/golden/models/models.lua, made by models.py).
--
-- Compares logits, losses of five AdamW steps, and greedy text, from every file format and on every recipe over eight
-- devices. RILLE_LONG=1 tries every recipe with every format.
local tap = dofile("t/lib/tap.lua")
local optim = rille.optim
local files = require "rille.models.loading.files"
local golden = dofile("t/golden/models/models.lua")
local hash = dofile("t/lib/families.lua").hash
local dir = tap.folder()

-- Returns a model's tensors by Hugging Face's names, and a sorted list of these names.
local function theirs(m, at)
  m:save(at)
  local tensors, names = rille.load(at .. "/model.safetensors"), {}
  for name in pairs(tensors) do names[#names + 1] = name end
  table.sort(names)
  return tensors, names
end

-- Returns a tensor's values by the formula of models.py. seed: the tensor's index in the sorted list of names.
local function numbers(name, shape, seed)
  local norm, list = #shape == 1 and name:find("weight$"), {}
  for i = 0, tap.numel(shape) - 1 do
    list[i + 1] = (norm and 0.5 or -0.8) + (norm and 1 or 1.6) * ((i * 7919 + seed * 104729 + 3571) % 9973) / 9973
  end
  return rille.tensor(list):reshape(shape)
end

-- Writes the tensors of a model, and checks their names and shapes. Returns the path. (Transformers writes a prefix
-- before GPT-2's names; published files do not have the prefix.)
local function weights_of(name, g)
  local path, tensors, digest = dir .. "/" .. name, {}, 0
  local ours, names = theirs(rille.models[name].new(g.config), path)
  for seed, n in ipairs(names) do
    local shape, full = ours[n].shape, (name == "gpt2" and "transformer." or "") .. n
    tensors[full] = numbers(n, shape, seed)
    digest = digest + hash(full .. " " .. table.concat(shape, "x"))
  end
  tap.is({#names, digest & 0xFFFFFFFF}, g.tensors, name .. ": names and shapes of Hugging Face's tensors")
  rille.save(path .. ".safetensors", tensors)
  return path .. ".safetensors"
end

local function model_of(name, g, path) return files.fill(rille.models[name].new(g.config), path) end

local function ids(rows, where) return rille.tensor(rows, {dtype = "i64"}):to_global(where) end

local function mesh(ranks) return rille.placement("cpu", ranks) end
local function whole(place) local t = {}; for i = 1, #place.shape do t[i] = "B" end; return t end

-- ---- file formats ----

-- Returns the bytes of t's elements in memory order: 4 bytes each, or 2 for bf16 and f16.
local function bytes_of(t, dtype)
  local out = {}
  if dtype == "f16" then -- replaces the values, which are the end of an .npy file
    local path = dir .. "/half.npy"
    rille.save(path, t:to"f16")
    local file <close> = assert(io.open(path, "rb"))
    file:seek("end", -2 * t:numel())
    return file:read("a")
  end
  for i, value in ipairs(t:to(dtype):to("f32"):reshape{-1}:totable()) do
    out[i] = dtype == "bf16" and ("<f"):pack(value):sub(3) or ("<f"):pack(value)
  end
  return table.concat(out)
end

local function write(path, ...)
  local file = assert(io.open(path, "wb"))
  file:write(...)
  assert(file:close())
end

-- Writes a checkpoint of llm.c for a GPT-2: version 3 (f32) or 5 (bf16).
local function write_llmc(m, path, version)
  local c, state, out = m.config, m:state_dict(), {}
  local head = {20240326, version, c.length, c.vocab, c.layers, c.heads, c.width, c.vocab + 5}
  for i = 1, 256 do out[i] = ("<i4"):pack(head[i] or 0) end
  local function add(t) out[#out + 1] = bytes_of(t, version == 5 and "bf16" or "f32") end
  local function each_layer(...)
    for i = 0, c.layers - 1 do
      for _, name in ipairs{...} do add(state[("h.%d.%s"):format(i, name)]) end
    end
  end
  add(state["wte.weight"])
  add(rille.zeros{5, c.width}) -- pads the vocabulary by five rows
  add(state["wpe.weight"])
  each_layer("norm1.weight"); each_layer("norm1.bias")
  for _, part in ipairs{"weight", "bias"} do
    each_layer("attention.q_proj." .. part, "attention.k_proj." .. part, "attention.v_proj." .. part)
  end
  each_layer("attention.out_proj.weight"); each_layer("attention.out_proj.bias")
  each_layer("norm2.weight"); each_layer("norm2.bias")
  each_layer("fc1.weight"); each_layer("fc1.bias")
  each_layer("fc2.weight"); each_layer("fc2.bias")
  add(state["ln_f.weight"]); add(state["ln_f.bias"])
  write(path, table.concat(out))
end

local function crc32(s)
  local crc = 0xffffffff
  for i = 1, #s do
    crc = crc ~ s:byte(i)
    for _ = 1, 8 do crc = crc >> 1 ~ (crc & 1) * 0xedb88320 end
  end
  return crc ~ 0xffffffff
end

-- Writes a zip archive without compression: a header before each member, and a directory at the end.
local function write_npz(m, at)
  local tensors, names = theirs(m, at)
  local out, list, offset = {}, {}, 0
  for _, name in ipairs(names) do
    rille.save(at .. ".npy", tensors[name])
    local file <close> = assert(io.open(at .. ".npy", "rb"))
    local npy, member = file:read("a"), name .. ".npy"
    local what = ("<I2I2I2I2I2I4I4I4I2I2"):pack(20, 0, 0, 0, 0x21, crc32(npy), #npy, #npy, #member, 0)
    out[#out + 1] = "PK\3\4" .. what .. member .. npy
    list[#list + 1] = "PK\1\2" .. ("<I2"):pack(20) .. what .. ("<I2I2I2I4I4"):pack(0, 0, 0, 0, offset) .. member
    offset = offset + #out[#out]
  end
  local directory = table.concat(list)
  write(at .. ".npz", table.concat(out), directory,
    "PK\5\6", ("<I2I2I2I2I4I4I2"):pack(0, 0, #list, #list, #directory, offset, 0))
  return at .. ".npz"
end

-- Writes a GGUF file without metadata. Sizes are listed last axis first, and each tensor begins at a multiple of 32
-- bytes.
local gguf_types = {f32 = 0, f16 = 1, bf16 = 30}
local function write_gguf(m, at, dtype)
  local tensors, names = theirs(m, at)
  local head, data, offset = {("<c4I4I8I8"):pack("GGUF", 3, #names, 0)}, {}, 0
  for i, name in ipairs(names) do
    local t = tensors[name]
    head[#head + 1] = ("<s8I4"):pack(name, t.ndim)
    for d = t.ndim, 1, -1 do head[#head + 1] = ("<I8"):pack(t.shape[d]) end
    head[#head + 1] = ("<I4I8"):pack(gguf_types[dtype], offset)
    data[i] = bytes_of(t, dtype)
    data[i] = data[i] .. ("\0"):rep(-#data[i] % 32)
    offset = offset + #data[i]
  end
  local before = table.concat(head)
  write(at .. ".gguf", before, ("\0"):rep(-#before % 32), table.concat(data))
  return at .. ".gguf"
end

-- Makes a model with the sizes of g on the placement in `options`, and fills its parameters.
local function filled(name, g, options, fill)
  local config = tap.with(g.config)
  config.placement, config.sbp = options.placement, options.sbp
  local m = rille.models[name].new(config)
  fill(m)
  return m
end
local function by_names(name, g, path, options)
  return filled(name, g, options, function(m) files.fill(m, path) end)
end

-- Functions that write a model in each format and return the path. load: function that reads the format, if the model
-- class cannot; rough: true: values are stored in 16 bits.
local forms = {
  {"a folder", function(m, at) m:save(at); return at end},
  {"its file", function(m, at) m:save(at); return at .. "/model.safetensors" end},
  {"a folder of shards", function(m, at) m:save(at, {max_shard_size = "3KB"}); return at end},
  {"llm.c 3", function(m, at) write_llmc(m, at .. ".bin", 3); return at .. ".bin" end, only = "gpt2"},
  {"llm.c 5", function(m, at) write_llmc(m, at .. ".bin", 5); return at .. ".bin" end, only = "gpt2", rough = true},
  {"npz", write_npz, load = by_names},
  {"GGUF of f32", function(m, at) return write_gguf(m, at, "f32") end, load = by_names},
  {"GGUF of f16", function(m, at) return write_gguf(m, at, "f16") end, load = by_names, rough = true},
  {"GGUF of bf16", function(m, at) return write_gguf(m, at, "bf16") end, load = by_names, rough = true},
  {"a model's state", function(m, at) rille.save(at .. ".safetensors", m); return at .. ".safetensors" end,
    load = function(name, g, path, options) return filled(name, g, options, function(m) m:load(path) end) end},
  {"a training's checkpoint", function(m, at) rille.checkpoint.save(at .. ".run", {model = m, step = 1}); return at .. ".run" end,
    load = function(name, g, path, options)
      return filled(name, g, options, function(m) rille.checkpoint.load(path, {model = m}) end)
    end},
}
local function load_form(form, name, g, path, options)
  if form.load then return form.load(name, g, path, options) end
  options.dtype = "f32"
  return rille.models[name].load(path, options)
end

-- ---- recipes ----

local P8, P24, P42 = mesh{0, 1, 2, 3, 4, 5, 6, 7}, mesh{{0, 1, 2, 3}, {4, 5, 6, 7}}, mesh{{0, 1}, {2, 3}, {4, 5}, {6, 7}}
local P222, P4, Q4 = mesh{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}}, mesh{0, 1, 2, 3}, mesh{4, 5, 6, 7}
local P22, Q22 = mesh{{0, 1}, {2, 3}}, mesh{{4, 5}, {6, 7}}
local recipes = {
  {"data, zero 1", P8, {data = 0, zero = 1}},
  {"data, zero 2", P8, {data = 0, zero = 2}},
  {"zero 3 x 1D", P42, {data = 0, tensor = 1, zero = 3}},
  {"data x 1D with sequence", P42, {data = 0, tensor = 1, sequence = true}},
  {"1D, heads on 4, x data", P24, {data = 0, tensor = 1}, only = "gpt2"},
  {"2D", P24, {tensor = {1, 0}}},
  {"data x 2D in panels", P222, {data = 0, tensor = {1, 2}, panels = 2}},
  {"2.5D", P222, {tensor = {0, 1, 2}, method = "2.5d"}},
  {"3D", P222, {tensor = {0, 1, 2}, method = "3d"}},
  {"stages x 2D", P22, {stages = {P22, Q22}, tensor = {0, 1}}},
  {"stages x data", P4, {stages = {P4, Q4}, data = 0}},
}

-- ---- comparison ----

local function compare(m, g, name, rough)
  local x, y = ids(golden.ids, rille.parallel.input(m)), ids(golden.labels, rille.parallel.labels(m))
  local vocab = g.config.vocab
  tap.near(m(x):reshape{-1}:totable(), g.logits, name .. ": logits", rough and 0.05 or 1e-4, rough and 0.03 or 1e-5)
  local opt, losses = optim.AdamW(m:parameters(), {lr = 1e-2, weight_decay = 0.1, eps = 0.05}), {}
  if not rough then
    local n = #g.greedy - #golden.ids[1]
    tap.is(m:generate({golden.ids[1]}, {max_new_tokens = n, temperature = 0}), {g.greedy}, name .. ": greedy text")
  end
  local step = tap.training(opt, function(a, b) return m(a):reshape{-1, vocab}:cross_entropy(b:reshape{-1}) end)
  for i = 1, 5 do losses[i] = step(x, y):item() end
  tap.near(losses, g.losses, name .. ": losses of five steps", rough and 0.02 or 2e-5)
end

for _, name in ipairs{"gpt2", "llama"} do
  local g = golden[name]
  local fits = function(row) return not row.only or row.only == name end
  local weights, paths = weights_of(name, g), {}
  tap.group(name, function() compare(model_of(name, g, weights), g, name) end)
  tap.group(name .. " in files", function()
    for i, form in ipairs(forms) do
      if fits(form) then
        local path = form[2](model_of(name, g, weights), ("%s/%s%d"):format(dir, name, i))
        paths[#paths + 1] = {form, path}
        compare(load_form(form, name, g, path, {}), g, ("%s from %s"):format(name, form[1]), form.rough)
      end
    end
  end)
  tap.group(name .. " on recipes", function()
    local turn = 0
    for _, recipe in ipairs(recipes) do
      for k, path in ipairs(paths) do
        local chosen = os.getenv("RILLE_LONG") or k - 1 == turn % #paths
        if fits(recipe) and chosen then
          local form = path[1]
          local m = load_form(form, name, g, path[2], {placement = recipe[2], sbp = whole(recipe[2])})
          rille.parallel(m, recipe[3])
          compare(m, g, ("%s from %s, %s"):format(name, form[1], recipe[1]), form.rough)
        end
      end
      turn = turn + 1
    end
  end)
end

tap.done()
