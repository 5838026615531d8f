-- models-block-experts.lua - tests mixtures of experts and multi-head latent attention of GGUF files with quantize =
-- "keep": the weights of all experts, and the projections to keys and values, stay in blocks.
local tap = dofile("t/lib/tap.lua")
local gguf = dofile("t/lib/gguf.lua")

local path = os.tmpname()
os.remove(path)
local dir, file = path .. ".d", path .. ".gguf"
local WIDTH <const>, HIDDEN <const>, VOCAB <const> = 256, 256, 64
local LAYERS, EXPERTS = 2, 4
math.randomseed(tap.seed())
rille.manual_seed(math.random(1 << 30))

-- Architecture -> metadata and tensors of a layer {name, shape}. A tensor of one dimension is f32.
local archs = {
  qwen3moe = {metadata = {{"attention.head_count", "u", 4}, {"attention.head_count_kv", "u", 2}, {"attention.key_length", "u", 64},
    {"expert_feed_forward_length", "u", HIDDEN}},
    tensors = {{"attn_q.weight", {256, WIDTH}}, {"attn_k.weight", {128, WIDTH}}, {"attn_v.weight", {128, WIDTH}}, {"attn_output.weight", {WIDTH,
      256}}, {"attn_q_norm.weight", {64}}, {"attn_k_norm.weight", {64}}, {"ffn_norm.weight", {WIDTH}}}},
  llama = {metadata = {{"attention.head_count", "u", 4}, {"attention.head_count_kv", "u", 2}},
    tensors = {{"attn_q.weight", {256, WIDTH}}, {"attn_k.weight", {128, WIDTH}}, {"attn_v.weight", {128, WIDTH}}, {"attn_output.weight", {WIDTH,
      256}}, {"ffn_norm.weight", {WIDTH}}}},
  ["gpt-oss"] = {metadata = {{"attention.head_count", "u", 4}, {"attention.head_count_kv", "u", 2}, {"attention.key_length", "u", 64},
    {"attention.sliding_window", "u", 8}, {"rope.dimension_count", "u", 64}}, bias = true,
    tensors = {{"attn_q.weight", {256, WIDTH}}, {"attn_k.weight", {128, WIDTH}}, {"attn_v.weight", {128, WIDTH}}, {"attn_output.weight", {WIDTH,
      256}}, {"attn_q.bias", {256}}, {"attn_k.bias", {128}}, {"attn_v.bias", {128}}, {"attn_output.bias", {WIDTH}}, {"attn_sinks.weight", {4}},
      {"post_attention_norm.weight", {WIDTH}}, {"ffn_gate_inp.bias", {4}}}},
  deepseek2 = {metadata = {{"attention.head_count", "u", 4}, {"attention.head_count_kv", "u", 1}, {"attention.q_lora_rank", "u", 256},
    {"attention.kv_lora_rank", "u", 256}, {"attention.key_length", "u", 288}, {"attention.value_length", "u", 256},
    {"attention.key_length_mla", "u", 64}, {"attention.value_length_mla", "u", 32}, {"rope.dimension_count", "u", 32},
    {"expert_feed_forward_length", "u", HIDDEN}, {"expert_shared_count", "u", 1}, {"expert_gating_func", "u", 2},
    {"expert_weights_norm", "b", true}, {"expert_weights_scale", "f", 2.5}, {"leading_dense_block_count", "u", 0},
    {"expert_group_count", "u", 1}, {"expert_group_used_count", "u", 1}},
    tensors = {{"attn_q_a.weight", {256, WIDTH}}, {"attn_q_a_norm.weight", {256}}, {"attn_q_b.weight", {256, 256}},
      {"attn_kv_a_mqa.weight", {288, WIDTH}}, {"attn_kv_a_norm.weight", {256}}, {"attn_k_b.weight", {4, 256, 32}}, {"attn_v_b.weight", {4, 32, 256}},
      {"attn_output.weight", {WIDTH, 128}}, {"ffn_norm.weight", {WIDTH}}, {"exp_probs_b.bias", {4}}, {"ffn_gate_shexp.weight", {HIDDEN, WIDTH}},
      {"ffn_up_shexp.weight", {HIDDEN, WIDTH}}, {"ffn_down_shexp.weight", {WIDTH, HIDDEN}}}},
}

-- Writes a model. kinds: block type by tensor name; kinds.other: type of all other tensors. Rows that do not divide
-- into blocks of 256 have type Q8_0.
local function write(arch, kinds)
  local own = archs[arch]
  local metadata, list = {{"general.architecture", "s", arch}}, {}
  local common = {{"block_count", "u", LAYERS}, {"context_length", "u", 64}, {"embedding_length", "u", WIDTH}, {"feed_forward_length", "u", HIDDEN},
    {"rope.freq_base", "f", 10000.0}, {"attention.layer_norm_rms_epsilon", "f", 1e-6}, {"expert_count", "u", EXPERTS}, {"expert_used_count", "u", 2}}
  for _, rows in ipairs{common, own.metadata} do
    for _, m in ipairs(rows) do metadata[#metadata + 1] = {arch .. "." .. m[1], m[2], m[3]} end
  end
  local function add(name, shape)
    local kind = kinds[name:match "([%a_]+)%.weight$"] or kinds.other
    if #shape == 1 or name:find "gate_inp" or name:find "_exps.bias" then
      local t = rille.randn(shape) * (name:find "norm" and 0.1 or 0.02)
      list[#list + 1] = gguf.f32(name, name:find "norm" and t + 1 or t)
    else
      if kind:find "_K" and shape[#shape] % 256 ~= 0 then kind = "Q8_0" end
      list[#list + 1] = gguf.random_blocks(name, shape, kind)
    end
  end
  add("token_embd.weight", {VOCAB, WIDTH})
  add("output_norm.weight", {WIDTH})
  add("output.weight", {VOCAB, WIDTH})
  for i = 0, LAYERS - 1 do
    local at = "blk." .. i .. "."
    add(at .. "attn_norm.weight", {WIDTH})
    add(at .. "ffn_gate_inp.weight", {EXPERTS, WIDTH})
    for _, t in ipairs(own.tensors) do add(at .. t[1], t[2]) end
    for _, name in ipairs{"gate", "up", "down"} do
      local rows, columns = name == "down" and WIDTH or HIDDEN, name == "down" and HIDDEN or WIDTH
      add(at .. "ffn_" .. name .. "_exps.weight", {EXPERTS, rows, columns})
      if own.bias then add(at .. "ffn_" .. name .. "_exps.bias", {EXPERTS, rows}) end
    end
  end
  gguf.write(file, metadata, list)
end

local ids = tap.list(12, function(i) return i * 7 % VOCAB end)
local batch = rille.tensor({ids}, {dtype = "i64"})
local long = rille.tensor(tap.list(4, function(r) return tap.list(48, function(i) return (i * 5 + r * i) % VOCAB end) end), {dtype = "i64"})
local function text(model) return model:generate({ids}, {max_new_tokens = 8, temperature = 0}) end
local function off(a, b) return (a - b):abs():max():item() / b:abs():max():item() end

local function size_of(name)
  local f <close> = assert(io.open(name, "rb"))
  return f:seek "end"
end

local function bytes(model)
  local sum = 0
  for _, found in ipairs(model:named_tensors()) do sum = sum + found.tensor:numel() * ({f32 = 4, u8 = 1})[found.tensor.dtype] end
  return sum
end

-- Recipes: name -> placement and recipe.
local function mesh(...) return rille.placement("cpu", ...) end
local recipes = {tensor = {mesh{0, 1}, {tensor = 0}}, data = {mesh{0, 1}, {data = 0}}, ["data and tensor"] = {mesh{{0, 1}, {2, 3}}, {data = 0, tensor = 1}},
  ["ZeRO 3"] = {mesh{0, 1}, {data = 0, zero = 3}}, ["three ranks for four experts"] = {mesh{0, 1, 2}, {tensor = 0}},
  stages = {nil, {stages = {mesh{0}, mesh{1}}}}, sequence = {mesh{0, 1}, {tensor = 0, sequence = true}}}

for _, case in ipairs{{"qwen3moe", {other = "Q8_0"}}, {"qwen3moe", {other = "Q4_K", ffn_down_exps = "Q6_K"}}, {"gpt-oss", {other = "Q8_0",
  ffn_gate_exps = "MXFP4", ffn_up_exps = "MXFP4", ffn_down_exps = "MXFP4"}}, {"deepseek2", {other = "Q4_K"}}, {"llama", {other = "Q4_K",
  ffn_down_exps = "Q6_K"}}} do
  local arch, kinds = table.unpack(case)
  local own = tap.share()
  tap.group(arch .. ", " .. (kinds.ffn_down_exps or kinds.other), function()
    if not own then return end
    write(arch, kinds)
    local plain, kept = rille.models.load(file), rille.models.load(file, {quantize = "keep"})
    tap.ok(off(kept(batch), plain(batch)) < 1e-5, "logits are those of the decoded weights", off(kept(batch), plain(batch)))
    tap.ok(off(kept(long), plain(long)) < 1e-5, "also for many rows of each expert", off(kept(long), plain(long)))
    tap.is(text(kept), text(plain), "a generated text, too")
    tap.ok(bytes(kept) <= 1.01 * size_of(file), "a model needs the memory of the file", bytes(kept) / size_of(file))
    for name, recipe in tap.sorted(recipes) do
      local good, split = pcall(rille.models.load, file, {quantize = "keep", placement = recipe[1], parallel = recipe[2]})
      tap.ok(good and off(split(batch):to_global{placement = mesh{0}, sbp = "B"}, plain(batch)) < 1e-5, name .. ": logits are the same", split)
      tap.is(good and text(split), text(plain), name .. ": a generated text, too")
      if name == "tensor" then tap.is(split.layers[1].mlp.up.sbp .. split.layers[1].mlp.down.sbp, "S(0)S(0)", name .. ": a rank has complete experts") end
    end
    -- fine-tuning: the gradient of the first layer's norm passes through all weights in blocks
    local function gradient(model)
      local w = model.layers[1].norm1.weight
      for _, p in ipairs(model:parameters()) do p.requires_grad = p == w end
      model(long):square():sum():backward()
      return w.grad
    end
    kept:save(dir)
    local again = rille.models.load(dir)
    tap.is(again(batch):totable(), kept(batch):totable(), "a saved folder has the same bits")
    if arch == "deepseek2" then
      local config = rille._read(dir .. "/config.json", 1 << 20, "t")
      for from, to in pairs{['("layers.0.attention.kv_proj.v")'] = '"layers.9.attention.kv_proj.v"', ['("layers.0.attention.kv_proj.v": )"Q4_K"'] = '%1"Q8_0"'} do
        local f <close> = assert(io.open(dir .. "/config.json", "w"))
        f:write((config:gsub(from, to)))
        f:flush()
        tap.fails(function() rille.models.load(dir) end, {dir, "kv_proj.v' must"}, "a folder whose config names other blocks is refused")
      end
    end
    tap.is({again.quantized, again.layers[1].mlp.kinds.down}, {"blocks", kinds.ffn_down_exps or kinds.other}, "and blocks again")
    os.execute(("rm -r '%s'"):format(dir))
    local want, found = gradient(plain), gradient(kept)
    tap.ok(off(found, want) < 1e-5, "gradients are those of the decoded weights", off(found, want))
    local function adapted(model)
      rille.models.lora(model, {r = 2, targets = {"q_proj", "out_proj", "gate", "up", "down"}})
      for name, p in model:named_parameters() do
        if name:find "lora" then rille.no_grad(function() p:copy_(rille.arange(p:numel()):to "f32":reshape(p.shape):sin() * 0.05) end) end
      end
      model(batch):square():sum():backward()
      local grads = {}
      for name, p in model:named_parameters() do grads[#grads + 1] = name:find "lora" and p.grad:reshape{-1} or nil end
      return rille.concat(grads, 0)
    end
    want, found = adapted(plain), adapted(kept)
    tap.ok(off(found, want) < 1e-5, "and those of adapters (QLoRA)", off(found, want))
  end)
end

tap.group("int4", function()
  if not tap.share() then return end
  rille.models.moe.new{vocab = VOCAB, length = 32, layers = 1, heads = 2, width = 64, experts = 4}:save(dir)
  local plain, small = rille.models.load(dir), rille.models.load(dir, {quantize = "int4"})
  tap.is({small.h[1].mlp.kinds.up, small.h[1].mlp.kinds.down, small.h[1].mlp.up.shape}, {"Q4_0", "Q4_0", {4, 256, 2, 18}}, "experts have blocks of 4 bits")
  local w = rille.from_blocks(small.h[1].mlp.up, {kind = "Q4_0"}):transpose(1, 2)
  tap.ok((w - plain.h[1].mlp.up):abs():max():item() <= plain.h[1].mlp.up:abs():max():item() / 7, "which are near the weights")
  os.execute(("rm -r '%s'"):format(dir))
  small:save(dir)
  tap.is(rille.models.load(dir)(batch):totable(), small(batch):totable(), "a saved folder has the same bits")
  os.execute(("rm -r '%s'"):format(dir))
end)

tap.group("int8", function()
  if not tap.share() then return end
  write("qwen3moe", {other = "Q8_0"})
  local plain, small = rille.models.load(file), rille.models.load(file, {quantize = "int8"})
  tap.is(small.layers[1].mlp.kinds, {gate = "Q8_0", up = "Q8_0", down = "Q8_0"}, "gated experts have blocks of 8 bits")
  tap.ok(off(small(batch), plain(batch)) < 0.02, "logits are near those of the float model", off(small(batch), plain(batch)))
  small:save(dir)
  tap.is(rille.models.load(dir)(batch):totable(), small(batch):totable(), "a saved folder has the same bits")
  os.execute(("rm -r '%s'"):format(dir))
end)

-- A file may have fewer tensors than experts, because a tensor contains a weight of all experts.
tap.group("experts and tensors", function()
  if not tap.share() then return end
  EXPERTS, LAYERS = 24, 1
  write("qwen3moe", {other = "Q8_0"})
  tap.is(rille.models.load(file, {quantize = "keep"}).layers[1].mlp.experts, 24, "a file with 18 tensors may have 24 experts")
  local whole = rille._read(file, 1 << 26, "t")
  local f <close> = assert(io.open(file, "wb"))
  f:write((whole:gsub("qwen3moe.expert_count....(....)", function() return "qwen3moe.expert_count" .. string.pack("<I4I4", 4, 25) end)))
  f:flush()
  tap.fails(function() rille.models.load(file) end, {file, "the file has tensors for at most 24 experts, found num_experts = 25"}, "more experts than in the tensors are refused")
end)
os.remove(file)

tap.done()
