-- lora.lua - tests adapters (nn.LoRA, rille.models.lora).
--
-- Results must be those of PEFT (t/golden/models/lora.lua). Adapters are read from and written to folders, and merged into
-- the model. Every recipe must train adapters with the losses of one device. Also tests adapters with other features
-- of fine-tuning: fused cross entropy, packed documents, and the loss of preferences.
local tap = dofile("t/lib/tap.lua")
local json = require "rille.json"
local golden = dofile("t/golden/models/lora.lua")
local entries = dofile("t/golden/models/families.lua")
local families = dofile("t/lib/families.lua")
local lora = rille.models.lora

local dir = tap.folder()
local base, adapter, out = dir .. "/base", dir .. "/adapter", dir .. "/out"

local P1, Q1, P2 = rille.placement("cpu", {0}), rille.placement("cpu", {1}), rille.placement("cpu", {0, 1})
local VOCAB <const> = entries.vocab
local function T(t, where) return rille.tensor(t, {dtype = "i64", placement = where and where.placement, sbp = where and where.sbp}) end
local rows = {{}, {}}
for i, v in ipairs(families.spread("ids", 48)) do rows[(i - 1) // 24 + 1][(i - 1) % 24 + 1] = math.floor((v + 1) / 2 * (VOCAB - 3) + 3) end

local function write_base(name)
  for _, entry in ipairs(entries) do
    if entry.name == name then families.write(entry, base) end
  end
end

-- Returns the tensor of an adapter with this name.
local made = {}
local function value(name, shape)
  local key, plus = name .. table.concat(shape, " "), name:find("magnitude_vector$") and 1 or 0
  local function one(v) return 0.3 * v + plus end
  made[key] = made[key] or rille.eval(rille.tensor(tap.list(families.spread(name, tap.numel(shape)), one), {dtype = "f64"}):to("f32"):reshape(shape))
  return made[key]
end

-- Writes an entry's folder. change(tensors, config): changes the tensors and options before.
local function write_adapter(entry, change)
  local tensors, weights, c = {}, rille.load(base .. "/model.safetensors"), json.decode(entry.config)
  for _, one in ipairs(entry.tensors) do
    local name, shape = table.unpack(one)
    local of_base = name:match("^base_model%.model%.(.*)%.base_layer%.weight$")
    tensors[name] = of_base and (weights[of_base .. ".weight"] or weights["model.embed_tokens.weight"]) or value(name, shape)
  end
  if change then change(tensors, c) end
  os.execute(("mkdir -p '%s'"):format(adapter))
  rille.save(adapter .. "/adapter_model.safetensors", tensors)
  tap.write(adapter .. "/adapter_config.json", json.encode(c))
end

local function loss_of(m)
  return m(T(rows)):slice(1, 0, 23):reshape{-1, VOCAB}:cross_entropy(T(rows):slice(1, 1, 24):reshape{-1})
end

-- Returns the losses of three steps of AdamW, and the sum of the absolute values of the first step's gradients.
local function trained(m)
  local opt, absolute = rille.optim.AdamW(m:parameters(), {lr = 0.01, weight_decay = 0}), nil
  local losses = tap.list(3, function()
    local loss = loss_of(m)
    opt:zero_grad()
    loss:backward()
    absolute = absolute or tap.sum(m:parameters(), function(p) return p.grad and p.grad:abs():sum():item() or 0 end)
    opt:step()
    return loss:item()
  end)
  return losses, absolute
end

-- Checks that lora.save wrote the tensors of the folder `adapter`, except weights that are not trained.
local function same_folder(name)
  local theirs, ours, wrong = rille.load(adapter .. "/adapter_model.safetensors"), rille.load(out .. "/adapter_model.safetensors"), {}
  for key, t in pairs(theirs) do
    if ours[key] and (t - ours[key]):abs():max():item() > 0 or not ours[key] and not key:find("base_layer.weight$") then wrong[#wrong + 1] = key end
  end
  for key in pairs(ours) do
    if not theirs[key] then wrong[#wrong + 1] = key end
  end
  tap.is(wrong, {}, name .. ": lora.save writes the tensors of PEFT's folder")
end

tap.group("PEFT", function()
  for i, entry in ipairs(golden) do
    if tap.share() then
      local name = ("%d, %s"):format(i, entry.family)
      write_base(entry.family)
      write_adapter(entry)
      local plain = rille.models.load(base)(T(rows)):totable()
      local m = lora(rille.models.load(base), adapter)
      local want = m(T(rows)):totable()
      tap.near(table.move(want[2][24], 1, 8, 1, {}), entry.logits, name .. ": logits are PEFT's", 2e-5, 2e-5)
      lora.save(m, out)
      if not entry.old then same_folder(name) end
      for recipe, how in tap.sorted{["tensor"] = {placement = P2, parallel = {tensor = 0}}, ["zero 3"] = {placement = P2, parallel = {data = 0, zero = 3}},
        stages = {parallel = {stages = {P1, Q1}}}} do
        local split = lora(rille.models.load(base, how), adapter)
        rille.parallel(split, how.parallel)
        tap.near(split(T(rows, rille.parallel.input(split))):totable(), want, ("%s, %s: logits are those of one device"):format(name, recipe), 5e-5, 5e-5)
        lora.save(split, out .. "-split")
        tap.near(lora(rille.models.load(base), out .. "-split")(T(rows)):totable(), want, ("%s, %s: a folder is saved"):format(name, recipe), 2e-5, 2e-5)
      end
      tap.near(lora(rille.models.load(base), out)(T(rows)):totable(), want, name .. ": a saved folder has the same adapters", 2e-5, 2e-5)
      tap.near(lora.without(m, m, T(rows)):totable(), plain, name .. ": without adapters, the base model computes")
      local tied = entry.family:find("tied") and entry.config:find("lm_head")
      if not tied and not (entry.config:find("modules_to_save.*embed_tokens")) then
        m:save(out)
        tap.near(rille.models.load(out)(T(rows)):totable(), want, name .. ": m:save writes weights with their adapters", 2e-5, 2e-5)
        tap.near(lora.merge(m)(T(rows)):totable(), want, name .. ": merged weights compute the same", 2e-5, 2e-5)
        tap.near(lora.merge(m, false)(T(rows)):totable(), want, name .. ": adapters come out again", 2e-5, 2e-5)
      end
      local losses, absolute = trained(lora(rille.models.load(base), adapter))
      tap.near(losses[1], entry.losses[1], name .. ": the loss is PEFT's", 2e-5, 2e-5)
      if not entry.old then
        tap.near(absolute, entry.absolute, name .. ": gradients are PEFT's", 1e-4)
        tap.near(losses, entry.losses, name .. ": losses of three steps are PEFT's", 1e-4)
      end
      os.execute(("rm -rf '%s' '%s' '%s'*"):format(base, adapter, out))
    end
  end
end)

tap.group("GPT-2", function()
  local m = rille.models.gpt2.new{vocab = 31, length = 12, layers = 1, heads = 2, width = 16}
  m:save(base)
  lora(m, {r = 2, targets = {"k_proj", "v_proj", "fc1"}})
  for _, p in ipairs(m:parameters()) do
    if p.requires_grad then rille.nn.init.normal_(p, 0, 0.3) end
  end
  local ids = T{{3, 1, 4, 1, 5}}
  local want = m(ids):totable()
  lora.save(m, out)
  local c = json.load(out .. "/adapter_config.json")
  tap.is({c.r, c.rank_pattern, c.fan_in_fan_out}, {2, {["transformer.h.0.attn.c_attn"] = 4}, true},
    "adapters of joined projections become one adapter with the sum of their ranks")
  tap.near(lora(rille.models.load(base), out)(ids):totable(), want, "joined adapters are divided again", 2e-6, 2e-6)
  os.execute(("rm -rf '%s' '%s'"):format(base, out))
end)

tap.group("saved folders", function()
  -- Entries: family, options. PEFT 0.21 computes the same logits with these folders, to 8e-6.
  for i, case in ipairs{
    {"llama", {targets = "all-linear"}}, {"llama", {dora = true, targets = {"q_proj", "embed_tokens"}, train = {"lm_head", "norm"}}},
    {"llama", {rslora = true, targets = ".*layers\\.1.*proj"}}, {"llama llama3 tied", {targets = {"lm_head", "q_proj"}, train = {"embed_tokens"}}},
    {"llama llama3 tied", {targets = {"lm_head", "embed_tokens"}}}, {"qwen2", {bias = true, targets = {"q_proj"}}},
    {"qwen2", {targets = {"q_proj"}, train = {"bias"}}}, {"qwen2", {targets = {"q_proj"}, train = {"k_proj", "q_proj.bias"}}},
    {"qwen2", {targets = {"q_proj"}, train = {"layers.0.attention.q_proj.bias"}}},
    {"qwen2", {targets = {"q_proj"}, train = {"layers.1.attention.k_proj.bias", "lm_head"}}},
    {"phi3", {dora = true, targets = {"q_proj", "v_proj", "gate_proj"}}}, {"phi3", {dora = true, targets = {"q_proj", "down_proj"}, train = {"k_proj"}}},
    {"gpt_neox", {dora = true, targets = {"q_proj", "v_proj"}}}, {"gpt_neox", {bias = true, targets = {"q_proj"}}},
    {"mixtral", {targets = {"gate", "up", "down", "router", "q_proj"}}}, {"gpt_oss", {targets = {"gate", "down"}, rslora = true}},
    {"granitemoe", {targets = {"up", "router"}, alpha = 5}}, {"deepseek_v3", {targets = {"1.mlp.up", "out_proj"}, train = {"norm"}}},
    {"deepseek_v3", {targets = "all-linear"}}, {"qwen2_moe", {targets = {"up_proj", "shared_gate", "gate"}}},
  } do
    if tap.share() then
      write_base(case[1])
      local m = lora(rille.models.load(base), tap.with({r = 2}, case[2]))
      for name, p in m:named_parameters() do
        if p.requires_grad then rille.nn.init.normal_(p, name:find("magnitude") and 1 or 0, 0.2) end
      end
      local trainable = #tap.list(m:parameters(), function(p) return p.requires_grad or nil end)
      lora.save(m, out)
      tap.is(#tap.list(m:parameters(), function(p) return p.requires_grad or nil end), trainable, ("%d, %s: saving freezes nothing"):format(i, case[1]))
      tap.is(lora(rille.models.load(base), out)(T(rows)):totable(), m(T(rows)):totable(), ("%d, %s: a saved folder has the same adapters"):format(i, case[1]))
      os.execute(("rm -rf '%s' '%s'"):format(base, out))
    end
  end
end)

tap.group("folders with other files", function()
  write_base("llama")
  local m = lora(rille.models.load(base), {r = 2})
  local want = m(T(rows)):totable()
  lora.save(m, base)
  tap.is(lora(rille.models.load(base), base)(T(rows)):totable(), want, "the folder of the model keeps the model")
  os.execute(("mkdir -p '%s' && cp '%s/adapter_config.json' '%s'"):format(out, base, out))
  dofile("t/lib/torch.lua")(out .. "/adapter_model.bin", rille.load(base .. "/adapter_model.safetensors"))
  tap.is(lora(rille.models.load(base), out)(T(rows)):totable(), want, "an old folder with a file of torch.save is read")
  os.execute(("rm -rf '%s' '%s'"):format(base, out))
  for _, entry in ipairs(dofile("t/golden/models/encoders.lua")) do
    if entry.name == "bert" then families.write(entry, base) end
  end
  local encoder = lora(rille.models.load(base), {r = 2, targets = "all-linear"})
  lora.save(encoder, out)
  tap.is(lora(rille.models.load(base), out)(T(rows)):totable(), encoder(T(rows)):totable(), "an encoder's adapters are saved")
  tap.is({json.load(out .. "/adapter_config.json").task_type}, {}, "and have no task of generation, for which PEFT needs methods that encoders lack")
  os.execute(("rm -rf '%s' '%s'"):format(base, out))
end)

tap.group("routers", function()
  local m = lora(rille.models.moe.new{vocab = 31, length = 12, layers = 1, heads = 2, width = 16, experts = 2}, {r = 2, targets = "all-linear"})
  for path, part in m:named_modules() do
    if getmetatable(part) == rille.nn.LoRA then tap.ok(not path:find("router$"), path .. ": all-linear adapts no router") end
  end
end)

tap.group("ranks that differ", function()
  write_base("llama")
  local m = lora(lora(rille.models.load(base), {r = 2, targets = {"q_proj"}}), {r = 3, alpha = 12, targets = {"out_proj", "down_proj"}, train = {"norm"}})
  local trained_ones = tap.list(m:parameters(), function(p) return p.requires_grad or nil end)
  tap.is(#trained_ones, 2 * 2 * 3 + 1, "a second call keeps the adapters of the first")
  lora.save(m, out)
  local c = json.load(out .. "/adapter_config.json")
  tap.is({c.r, c.lora_alpha, c.rank_pattern["model.layers.1.mlp.down_proj"], c.alpha_pattern["model.layers.1.mlp.down_proj"]}, {2, 2, 3, 12}, "ranks and scalings are saved")
  os.execute(("rm -rf '%s' '%s'"):format(base, out))
end)

-- ---- quantized models ----

-- Writes the model of an entry of gguf_files.lua as a GGUF file whose matrices are Q8_0 blocks.
local function write_gguf(entry, path)
  local gguf, list = dofile("t/lib/gguf.lua"), {}
  for i, t in ipairs(gguf.tensors(entry, rille.load(base .. "/model.safetensors"))) do
    local name, x = t[1], t[2]
    list[i] = gguf.f32(name, x)
    if x.ndim > 1 and x.shape[x.ndim] % 32 == 0 then
      local bytes = tap.list(rille.to_blocks(x:to("f32")):reshape{-1}:totable(), function(b) return string.char(b) end)
      list[i] = {name = name, shape = x.shape, type = 8, bytes = table.concat(bytes)}
    end
  end
  gguf.write(path, entry.metadata, list)
end

tap.group("quantized models", function()
  local path = dir .. "/model.gguf"
  write_base("llama")
  for _, entry in ipairs(dofile("t/golden/models/gguf_files.lua")) do
    if entry.name == "llama" then write_gguf(entry, path) end
  end
  for _, method in ipairs{"int8", "int4", "keep"} do
    for _, options in ipairs{{}, {dora = true}} do
      if not tap.share() then goto continue end
      local from, name = method == "keep" and path or base, method .. (options.dora and ", dora" or "")
      local m = lora(rille.models.load(from, {quantize = method}), tap.with({r = 2, targets = {"q_proj", "v_proj", "up_proj"}}, options)):train()
      local losses = trained(m)
      tap.ok(losses[3] < losses[1], name .. ": the loss falls", table.concat(losses, " "))
      lora.save(m, out)
      local want = m:eval()(T(rows)):totable()
      tap.is(lora(rille.models.load(from, {quantize = method}), out)(T(rows)):totable(), want, name .. ": a saved adapter has the same bits")
      local float = lora(rille.models.load(from), out)
      if method == "keep" then tap.near(float(T(rows)):totable(), want, name .. ": the decoded model computes the same", 5e-5, 5e-5) end
      local adapted_logits = float(T(rows)):totable()
      tap.near(lora.merge(float)(T(rows)):totable(), adapted_logits, name .. ": the adapter is merged into the float model", 2e-5, 2e-5)
      ::continue::
    end
  end
  os.execute(("rm -rf '%s' '%s'"):format(base, out))
end)

-- ---- recipes ----

local P4 = rille.placement("cpu", {{0, 1}, {2, 3}})
local recipes = {
  {"data", P2, {data = 0}}, {"tensor", P2, {tensor = 0}}, {"sequence", P2, {tensor = 0, sequence = true}},
  {"zero 3", P2, {data = 0, zero = 3}}, {"data and tensor", P4, {data = 0, tensor = 1}}, {"micro-batches", P1, nil, 2},
  {"stages", nil, {stages = {P1, Q1}}, 2},
}

local ids, labels, documents = {}, {}, {}
for b = 1, 4 do
  ids[b], labels[b], documents[b] = {}, {}, {}
  for i = 1, 8 do
    ids[b][i], documents[b][i] = (b * 5 + i * i) % 31, i <= b + 1 and 1 or 2
    labels[b][i] = i < b + 2 and -100 or (b * 5 + (i + 1) * (i + 1)) % 31
  end
end

local function log_probabilities(m, x, y)
  return -rille.linear_cross_entropy(m:features(x), m.lm_head.weight, y, {reduction = "none", chunks = 3}):sum{axis = 1}
end

local losses = {
  plain = function(m, x, y) return m(x):reshape{-1, 31}:cross_entropy(y:reshape{-1}) end,
  fused = function(m, x, y) return rille.linear_cross_entropy(m:features(x), m.lm_head.weight, y, {chunks = 3}) end,
  packed = function(m, x, y, d) return m(x, {documents = d}):reshape{-1, 31}:cross_entropy(y:reshape{-1}) end,
  int8 = function(m, x, y) return m(x):reshape{-1, 31}:cross_entropy(y:reshape{-1}) end,
  dora = function(m, x, y) return m(x):reshape{-1, 31}:cross_entropy(y:reshape{-1}) end,
  experts = function(m, x, y) return m(x):reshape{-1, 31}:cross_entropy(y:reshape{-1}) end,
  preferences = function(m, x, y)
    local other = (x + 3) % 31
    local function both() return log_probabilities(m, x, y), log_probabilities(m, other, y) end
    local chosen, rejected = both()
    local ref_chosen, ref_rejected = rille.no_grad(function() return lora.without(m, both) end)
    return rille.dpo_loss(chosen, rejected, ref_chosen, ref_rejected, {beta = 0.3})
  end,
}

-- name of a loss -> options of its adapters; without an entry: a rank of 2, for all linear layers
local adapted = {
  dora = {dora = true, targets = {"embed_tokens", "lm_head", "down_proj", "q_proj"}, train = {"norm"}},
  fused = {bias = true, targets = "all-linear"}, experts = {targets = {"up", "down", "v_proj", "router"}},
  preferences = {targets = {"embed_tokens", "v_proj"}, train = {"lm_head", "norm"}},
}

local function train(what, placement, recipe, micro_batches)
  rille.manual_seed(7)
  local m = rille.models.load(what == "experts" and base .. "-experts" or base, {placement = placement, quantize = what == "int8" and "int8" or nil})
  lora(m, tap.with({r = 2, alpha = 4, targets = "all-linear"}, adapted[what] or {})):train()
  for name, p in m:named_parameters() do
    if name:find("lora_[AB]$") then rille.nn.init.normal_(p, 0, 0.1) end
  end
  if recipe then rille.parallel(m, recipe) end
  local x, y = rille.parallel.input(m), rille.parallel.labels(m)
  local opt = rille.optim.AdamW(m:parameters(), {lr = 0.05})
  local step = tap.training(opt, function(...) return losses[what](m, ...) end, {micro_batches = micro_batches or 1})
  return tap.list(3, function() return step(T(ids, x), T(labels, y), T(documents, x)):item() end)
end

tap.group("recipes", function()
  rille.manual_seed(1)
  rille.models.llama.new{vocab = 31, length = 12, layers = 2, heads = 4, width = 16, kv_heads = 2}:save(base)
  rille.models.moe.new{vocab = 31, length = 12, layers = 2, heads = 4, width = 16, experts = 4}:save(base .. "-experts")
  for _, what in ipairs{"plain", "fused", "packed", "int8", "dora", "experts", "preferences"} do
    local want = train(what, P1)
    tap.ok(want[3] < want[1], what .. ": the loss falls", table.concat(want, " "))
    for _, case in ipairs(recipes) do
      if tap.share() then tap.near(train(what, table.unpack(case, 2, 4)), want, what .. ", " .. case[1] .. ": losses of one device") end
    end
  end
end)

-- ---- adapters with other features of fine-tuning ----

tap.group("fused cross entropy", function()
  rille.manual_seed(3)
  local x, w = rille.nn.Parameter(rille.randn{4, 10, 8}), rille.nn.Parameter(rille.randn{50, 8})
  local b = rille.nn.Parameter(rille.randn{50})
  local y = T(tap.rows(4, 10, function(r, i) return r * i % 3 == 0 and -100 or (r * 7 + i * 11) % 50 end))
  local function grads(loss)
    for _, p in ipairs{x, w, b} do p.grad = nil end
    loss:sum():backward()
    return {loss:totable(), x.grad:totable(), w.grad:totable(), b.grad:totable()}
  end
  for _, reduction in ipairs{"mean", "sum", "none"} do
    for _, smoothing in ipairs{0, 0.25} do
      local how = {reduction = reduction, label_smoothing = smoothing}
      local z = rille.matmul(x, w:transpose(0, 1)) + b
      local loss = z:reshape{-1, 50}:cross_entropy(y:reshape{-1}, how)
      local want = grads(reduction == "none" and loss:reshape{4, 10} or loss)
      for _, chunks in ipairs{1, 3, 10, 99} do
        local got = grads(rille.linear_cross_entropy(x, w, y, {bias = b, chunks = chunks, reduction = reduction, label_smoothing = smoothing}))
        tap.near(got, want, ("%s, smoothing %g, %d chunks: value and gradients of two steps"):format(reduction, smoothing, chunks), 2e-5, 2e-5)
      end
    end
  end
end)

tap.group("fused linear and cross entropy, half precision", function()
  local want = {f16 = 101, bf16 = 101}
  local got = {}
  for dtype in pairs(want) do
    local x, w = rille.ones({3000, 1}, {dtype = dtype}), rille.tensor({{0}, {101}}, {dtype = dtype})
    local labels = rille.zeros({3000}, {dtype = "i64"})
    got[dtype] = rille.linear_cross_entropy(x, w, labels, {chunks = 64}):item()
  end
  tap.is(got, want, "the mean of 3,000 equal losses is that loss")
end)

tap.group("loss of preferences", function()
  -- Expected value: python3 -c 'import torch.nn.functional as F, torch as t; m = 0.5*t.tensor([0.4, -0.7]);
  -- print(-(F.logsigmoid(m)*0.9 + F.logsigmoid(-m)*0.1).mean())'
  local chosen, rejected = rille.tensor{-1.0, -2.0}, rille.tensor{-1.5, -1.0}
  local loss = rille.dpo_loss(chosen, rejected, rille.tensor{-1.1, -1.7}, rille.tensor{-1.2, -1.4}, {beta = 0.5, label_smoothing = 0.1})
  tap.near(loss:item(), 0.7332605, "equals the formula")
end)

tap.group("TRL", function()
  local entry, x = golden[1], T(rows):slice(1, 0, 23)
  write_base(entry.family)
  write_adapter(entry)
  local m = lora(rille.models.load(base), adapter)
  local function labels_of(ids)
    return T(tap.list(ids, function(row, r) return tap.list(23, function(i) return i >= entry.mask[r] and row[i + 1] or -100 end) end))
  end
  local other = tap.list(rows, function(row) return tap.list(row, function(id) return (id + 3) % VOCAB end) end)
  local y, x_other, y_other = labels_of(rows), T(other):slice(1, 0, 23), labels_of(other)
  tap.near(rille.linear_cross_entropy(m:features(x), m.lm_head.weight, y):item(), entry.masked, "the loss of labels that are not masked", 1e-5)
  local function log_probabilities(ids, labels)
    return -rille.linear_cross_entropy(m:features(ids), m.lm_head.weight, labels, {reduction = "none"}):sum{axis = 1}
  end
  local function both() return log_probabilities(x, y), log_probabilities(x_other, y_other) end
  local chosen, rejected = both()
  local ref_chosen, ref_rejected = rille.no_grad(function() return lora.without(m, both) end)
  local loss = rille.dpo_loss(chosen, rejected, ref_chosen, ref_rejected, {beta = 0.3})
  tap.near(loss:item(), entry.preferences[1], "the loss of preferences is TRL's", 2e-5)
  loss:backward()
  local absolute = tap.sum(m:parameters(), function(p) return p.grad and p.grad:abs():sum():item() or 0 end)
  tap.near(absolute, entry.preferences[2], "the gradients of preferences are TRL's", 1e-4)
  os.execute(("rm -rf '%s' '%s'"):format(base, adapter))
end)

tap.group("conversations", function()
  local tok = rille.tokenizer("t/golden/text/tokenizer.json")
  local template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
  local path = dir .. "/chats.jsonl"
  tap.write(path, '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}, ',
    '{"role": "user", "content": "x"}, {"role": "assistant", "content": "yes"}]}\n\n{"prompt": "Q: 1 A:", "completion": " two"}\n')
  local function shown(x, y, r)
    local text = tap.list(y:totable()[r], function(id) return id == -100 and "_" or tok:decode{id} end)
    return (table.concat(text):gsub("_+", "_"))
  end
  local x, y = rille.data.chats(path, {tokenizer = tok, length = 80, template = template})
  tap.is({shown(x, y, 1), shown(x, y, 2)}, {"_Yo</s>_yes</s>_", "_ two_"}, "only answers are labels")
  local a, b, d = rille.data.chats(path, {tokenizer = tok, length = 120, template = template, pack = true, eos = 5})
  tap.is(a.shape, {1, 120}, "short examples share a row")
  local want = 1
  for _, k in ipairs(d:totable()[1]) do
    tap.ok(k == want or k == want + 1 or k == 0, "documents are numbered in order")
    want = k == 0 and 0 or k
  end
  tap.ok(shown(a, b, 1):find("^_Yo</s>_yes</s>_ two"), "packed labels stand in order", shown(a, b, 1))
  local m = rille.models.llama.new{vocab = tok.size, length = 120, layers = 1, heads = 2, width = 16}
  local function mean(x, y, given) return m(x, given):reshape{-1, tok.size}:cross_entropy(y:reshape{-1}):item() end
  tap.near(mean(a, b, {documents = d}), mean(rille.data.chats(path, {tokenizer = tok, length = 80, template = template, eos = 5})), "packed examples have the loss of separate rows")
  tap.is(rille.data.chats(path, {tokenizer = tok, length = 14, template = template}).shape, {1, 14}, "an example without a label is left out")
  tap.fails(function() rille.data.chats(path, {tokenizer = tok, length = 2, template = template}) end,
    {"no example has a token of an answer within 2 positions; raise length"}, "no label")
  tap.fails(function() rille.data.chats(path, {tokenizer = tok}) end, {"lora.lua", "length must be a positive integer"}, "no length")
  tap.fails(function() rille.data.chats({{prompt = "a"}}, {tokenizer = tok, length = 4}) end, {"example 1: completion must be a string, found nil"},
    "no completion")
end)

tap.group("packing", function()
  local tok = rille.tokenizer.train({"ab"}, {size = 256})
  local chats = tap.list(40, function(i) return {prompt = "", completion = ("a"):rep((i * i * 7 + i * 3) % 13 + 1)} end)
  -- rows of TRL 1.16: pack_dataset(examples of these lengths, 12, "bfd")
  local want = {{1, 7}, {6, 13}, {14, 20}, {19, 26}, {27, 33}, {32, 39}, {40}, {9}, {11}, {22}, {24}, {35}, {37}, {2, 10}, {5, 23}, {15, 36}, {18}, {28},
    {31}, {3}, {4}, {16}, {17}, {29}, {30}, {8, 12}, {21, 25}, {34, 38}}
  local x, y, documents = rille.data.chats(chats, {tokenizer = tok, length = 12, pack = true, eos = 5})
  local rows_of, filled = {}, {}
  for r, row in ipairs(documents:totable()) do
    rows_of[r] = {}
    for i, k in ipairs(row) do
      if k > 0 and row[i - 1] ~= k then table.insert(rows_of[r], k) end
      if k > 0 then filled[k] = (filled[k] or 0) + 1 end
    end
  end
  tap.is(rows_of, want, "rows have the examples of TRL's rows")
  tap.is(filled, tap.list(chats, function(one) return #one.completion end), "each example is complete")
  tap.is({x.shape, y.shape}, {{28, 12}, {28, 12}}, "ids and labels have the same rows")
end)

tap.group("templates with generation blocks", function()
  local tok = rille.tokenizer("t/golden/text/tokenizer.json")
  -- Returns the labels of a conversation as text; "_" stands for tokens that are no labels.
  local function labelled(template, ...)
    local messages = {}
    for i, text in ipairs{...} do messages[i] = {role = i % 2 == 1 and "user" or "assistant", content = text} end
    local _, y = rille.data.chats({{messages = messages}}, {tokenizer = tok, length = 200, template = template})
    return (table.concat(tap.list(y:totable()[1], function(id) return id == -100 and "_" or tok:decode{id} end)):gsub("_+", "_"))
  end
  local head = "{% for m in messages %}{% if m.role == 'user' %}[{{ m.content }}]\n\n{% else %}bot:\n\n"
  local tail = "{% endif %}{% endfor %}{% if add_generation_prompt %}bot:\n\n{% endif %}"
  -- transformers' return_assistant_tokens_mask gives these labels, as with 119 conversations in templates of TRL 1.16.
  tap.is(labelled(head .. "<t>{% generation %}{{ m.content }}#\n{% endgeneration %}" .. tail, "a", "Yo", "b", "yes"), "_Yo#\n_yes#\n_", "the blocks are the labels")
  tap.is(labelled(head .. "{% generation %}<t>{{ m.content }}#{% endgeneration %}\n" .. tail, "a", "Yo"), "_<t>Yo#_", "a block begins in a message")
  tap.is(labelled(head .. "{% if loop.last %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}" .. tail, "a", "Yo", "b", "yes"),
    "_yes_", "answers outside of blocks are no labels")
  tap.is(labelled(head .. "{{ m.content }}#" .. tail, "a", "Yo"), "_Yo#_", "without blocks, messages of the assistant are the labels")
  local text, answers = tok:chat({{role = "assistant", content = "é!"}}, {template = "x{% generation %}{{ messages[0].content }}{% endgeneration %}.", answers = true})
  tap.is({text, answers}, {"xé!.", {{2, 4}}}, "chat returns the positions of bytes")
  tap.is(select("#", tok:chat({}, {template = "x"})), 1, "chat returns the text alone by default")
end)

tap.group("modes and checkpoints", function()
  rille.manual_seed(2)
  local function new() return lora(rille.models.llama.new{vocab = 31, length = 12, layers = 1, heads = 2, width = 16}, {r = 2, dropout = 0.5}) end
  local m = new()
  local x = T{{3, 1, 4, 1, 5}}
  for _, p in ipairs(m:parameters()) do rille.nn.init.normal_(p, 0, 0.3) end
  tap.ok(m(x):sub(m(x)):abs():max():item() > 0, "dropout is on in training mode")
  local want = m:eval()(x):totable()
  tap.is(m(x):totable(), want, "dropout is off in evaluation mode")
  rille.checkpoint.save(dir .. "/run", {model = m})
  local other = new():eval()
  rille.checkpoint.load(dir .. "/run", {model = other})
  tap.is(other(x):totable(), want, "a checkpoint restores base and adapters")
  local step = rille.graph(function(t) return m(t) end)
  tap.near(step(x):totable(), want, "a compiled step has the adapters")
  local plain = lora.without(m, m, x):totable()
  tap.near(lora.without(m, step, x):totable(), plain, "a compiled step runs without adapters")
  tap.near(step(x):totable(), want, "and has them again afterwards")
  lora.merge(m)
  tap.near(step(x):totable(), want, "a compiled step follows a merge", 1e-5, 1e-5)
  m:save(base)
  local small = lora(rille.models.load(base, {quantize = "int8"}), {r = 2})
  tap.fails(function() small:save(out) end, {"the quantized weight of 'layers.0.attention.q_proj' cannot hold its adapter"}, "int8 weights with adapters")
  tap.fails(function() lora.merge(small) end, {"a quantized weight cannot hold an adapter"}, "a merge into int8 weights")
end)

tap.group("checkpoints of merged adapters", function()
  local function values(m) return tap.list(m:parameters(), function(p) return p:totable() end) end
  for _, options in ipairs{{}, {dora = true, targets = {"q_proj", "embed_tokens"}}, {bias = true, targets = {"q_proj"}}} do
    local name = options.dora and "dora" or options.bias and "bias" or "plain"
    local function new(seed)
      rille.manual_seed(seed)
      local m = lora(rille.models.llama.new{vocab = 31, length = 12, layers = 1, heads = 2, width = 16, qkv_bias = true, out_bias = true}, tap.with({r = 2}, options))
      for _, p in ipairs(m:parameters()) do rille.nn.init.normal_(p, 0, 0.3) end
      return m
    end
    local m, other = new(2), new(3)
    local want = values(m)
    rille.checkpoint.save(dir .. "/merged", {model = lora.merge(m)})
    tap.fails(function() rille.checkpoint.load(dir .. "/merged", {model = other}) end, {"lora_factor"}, name .. ": adapters that are not merged refuse it")
    rille.checkpoint.load(dir .. "/merged", {model = lora.merge(other)})
    tap.near(values(lora.merge(other, false)), want, name .. ": merged adapters load it, and come out again", 1e-5, 1e-5)
    rille.checkpoint.save(dir .. "/merged", {model = other})
    rille.checkpoint.load(dir .. "/merged", {model = new(4)})
    tap.ok(true, name .. ": an adapter that came out again has the state of one that never was merged")
    os.execute(("rm -r '%s/merged'"):format(dir))
  end
end)

tap.group("several adapters", function()
  local x = T{{3, 1, 4, 1, 5}}
  for _, recipe in ipairs{{P1}, {P2, {tensor = 0}}, {P2, {data = 0, zero = 3}}, {nil, {stages = {P1, Q1}}}} do
    if recipe[2] and not tap.share() then goto continue end
    rille.manual_seed(4)
    local m = rille.models.llama.new{vocab = 32, length = 12, layers = 2, heads = 4, width = 16, placement = recipe[1]}
    if recipe[2] then rille.parallel(m, recipe[2]) end
    local where = rille.parallel.input(m)
    local step = rille.graph(function(t) return m(t) end)
    -- Adds adapters with random values. Returns the logits.
    local function new(options)
      lora(m, options)
      if recipe[2] then rille.parallel(m, recipe[2]) end
      for _, p in ipairs(m:parameters()) do
        if p.requires_grad then rille.nn.init.normal_(p, 0, 0.3) end
      end
      return m(x:to_global(where)):totable()
    end
    local plain = m(x:to_global(where)):totable()
    local want_one = new{r = 2}
    local one = lora.swap(m)
    tap.near(step(x:to_global(where)):totable(), plain, "adapters are taken off")
    local want_two = new{r = 3, dora = true, targets = {"down_proj", "embed_tokens"}, train = {"lm_head", "norm"}}
    local two = lora.swap(m, one)
    tap.near(step(x:to_global(where)):totable(), want_one, "the first adapters are put on")
    one = lora.swap(m, two)
    tap.near(step(x:to_global(where)):totable(), want_two, "the second adapters are put on")
    tap.near(lora.without(m, m, x:to_global(where)):totable(), plain, "the base model is still known")
    tap.is(#m:parameters(), #rille.models.llama.new{vocab = 32, length = 12, layers = 2, heads = 4, width = 16}:parameters() + 9, "the parameters are those of one set")
    lora.swap(m)
    local q = m.layers[1].attention.q_proj
    local before = q.weight:detach()
    lora.swap(m, lora.mix{{one, 0.25}, {one, -1}})
    local sum = m.layers[1].attention.q_proj:merged_weight() - before
    lora.swap(m, one)
    tap.near(sum:totable(), ((m.layers[1].attention.q_proj:merged_weight() - before) * -0.75):totable(), "mix adds weighted updates", 1e-4, 1e-6)
    lora.merge(m)
    tap.fails(function() lora.swap(m) end, {"the adapter of 'layers.0.attention.q_proj' must not be merged"}, "merged adapters")
    lora.merge(m, false)
    tap.fails(function() lora.mix{{two, 1}} end, {"trained completely have no weighted sum"}, "a sum with complete parameters")
    local other = rille.models.llama.new{vocab = 32, length = 12, layers = 1, heads = 4, width = 16}
    tap.fails(function() lora.swap(other, one) end, {"models.lora.swap: the "}, "adapters of another model")
    tap.fails(function() lora.swap(rille.models.llama.new{vocab = 32, length = 12, layers = 2, heads = 4, width = 32}, one) end, {"must have the shape and layout"}, "another width")
    tap.fails(function() lora.swap(m, {}) end, {"expected adapters, a result of rille.models.lora.swap"}, "no adapters")
    tap.fails(function() lora.mix{} end, {"expected a list of {adapters, weight}"}, "nothing to mix")
    tap.fails(function() lora.mix{{one}} end, {"a weight must be"}, "no weight")
    ::continue::
  end
end)

tap.group("errors", function()
  local m = rille.models.llama.new{vocab = 31, length = 12, layers = 1, heads = 2, width = 16, tied = true}
  tap.fails(function() lora(m, {targets = {"q"}}) end, {"lora.lua", "the target 'q' names no linear layer; the names are: down_proj"}, "an unknown target")
  tap.fails(function() lora(rille.nn.Sequential(rille.nn.ReLU()), {r = 4}) end, {"the model must have linear layers; found none"}, "no linear layer")
  local twice = lora(rille.models.llama.new{vocab = 31, length = 12, layers = 1, heads = 2, width = 16}, {r = 2})
  tap.fails(function() lora(twice, {r = 2}) end, {"the target 'q_proj' has an adapter already; a layer can have one"}, "a second adapter")
  tap.fails(function() lora(m, {rank = 2}) end, {"unknown option 'rank': write r"}, "the name of PEFT")
  tap.fails(function() lora.merge(m) end, {"the model has no adapters"}, "no adapters")
  tap.fails(function() lora(m, {targets = ".*x_proj"}) end, {"the targets \".*x_proj\" select no linear layer"}, "an expression without a match")
  tap.fails(function() lora(m, {targets = "(q"}) end, {"'(q' must be a regular expression"}, "no regular expression")
  tap.fails(function() lora(m, {targets = "((q_?)+)+-(.*)*k_proj"}) end, {"select no linear layer"}, "an expression of exponential cost")
  tap.fails(function() lora(m, {train = {"x"}}) end, {"train: 'x' names no module or parameter"}, "an unknown module")
  tap.fails(function() lora(m, {train = "norm"}) end, {"train must be a list"}, "no list")
  tap.fails(function() lora(m, {train = {7}}) end, {"train must be a list of strings"}, "no name")
  tap.fails(function() lora(m, {dora = true, bias = true}) end, {"bias must be false if dora is true"}, "a bias of DoRA")
  tap.fails(function() lora(m, {bias = true, targets = {"embed_tokens"}}) end, {"bias must be false for an nn.Embedding"}, "a bias of an embedding")
  tap.is(#m:parameters(), 11, "errors do not change the model")
  lora(m, {targets = {"lm_head"}})
  tap.fails(function() lora.merge(m) end, {"the weight is tied to another layer's, so it cannot hold an adapter"}, "a merge into a tied weight")
  lora(m, {targets = {"k_proj"}})
  tap.fails(function() lora.merge(m) end, {"the weight is tied"}, "a merge of which one is impossible")
  tap.is(m.layers[1].attention.k_proj.merged, false, "an error merges nothing")
  tap.fails(function() lora(m, {r = 0}) end, {"r must be a positive integer"}, "rank 0")
  tap.fails(function() lora(m, dir .. "/none") end, {"adapter_config.json"}, "a missing folder")
  tap.fails(function() rille.nn.LoRA(rille.nn.ReLU()) end, {"expected an nn.Linear, nn.Int8Linear, nn.BlockLinear or nn.Embedding, found nn.ReLU"}, "another layer")
end)

tap.group("damaged folders", function()
  local m
  -- Checks that a folder is refused, and that the model is not changed.
  local function refused(entry, change, words, name)
    write_adapter(entry, change)
    local before = #m:parameters()
    tap.fails(function() lora(m, adapter) end, words, name)
    tap.is(#m:parameters(), before, name .. ": the model is not changed")
  end
  for _, i in ipairs{6, 12, 13, 16, 17, 24} do
    local entry = golden[i]
    write_base(entry.family)
    m = rille.models.load(base)
    for _, one in ipairs(entry.tensors) do
      local key = one[1]
      if tap.share() and not key:find("base_layer.weight$") then
        local name = ("%s, '%s'"):format(entry.family, key)
        refused(entry, function(t) t[key] = nil end, {"models.lora: ", key .. "' is missing"}, name .. " is missing")
        refused(entry, function(t) t[key] = t[key]:to("i64") end, {"models.lora: ", key .. "' must have a float dtype, found i64"}, name .. " has integers")
        refused(entry, function(t) t[key] = rille.concat({t[key], t[key]}, 0) end, {"models.lora: ", key .. "' must have the shape {"}, name .. " has too many rows")
        refused(entry, function(t) t[key] = t[key]:reshape{-1, 1, 1} end, {"models.lora: ", key .. "' must have the shape {"}, name .. " has other dimensions")
      end
    end
  end
  write_base("llama")
  m = rille.models.load(base)
  refused(golden[1], function(t) t["base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight"] = rille.zeros{3, 32} end,
    {"layers.2.self_attn.q_proj.lora_A.weight' fits no module of the model"}, "a layer that the model lacks")
  refused(golden[1], function(t) t["base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector"] = rille.zeros{32} end,
    {"q_proj.lora_magnitude_vector' fits no module of the model, or no option"}, "a magnitude without use_dora")
  refused(golden[1], function(_, c) c.target_modules = json.array{"k_proj"} end, {"k_proj.lora_A.weight' is missing"}, "another target")
  refused(golden[1], function(_, c) c.r = 4 end, {"q_proj.lora_A.weight' must have the shape {4, 32}, found {3, 32}"}, "another rank")
  refused(golden[1], function(_, c) c.alpha_pattern = {q_proj = 3, ["self_attn\\.q_proj"] = 4} end,
    {"two keys of alpha_pattern match the module 'model.layers.0.self_attn.q_proj'"}, "two patterns")
  refused(golden[1], function(_, c) c.init_lora_weights = "pissa_niter_4" end, {"adapter_config.json: init_lora_weights = \"pissa_niter_4\""}, "PiSSA")
  for _, key in ipairs{"kasa_config", "trainable_token_indices", "velora_config", "ensure_weight_tying", "new_option"} do
    refused(golden[1], function(_, c) c[key] = {x = 1} end, {"adapter_config.json: " .. key .. " is not supported"}, key)
  end
  write_base("mixtral")
  m = rille.models.load(base)
  refused(golden[17], function(_, c) c.lora_dropout = 0.1 end, {"lora_dropout 0, with adapters of experts"}, "dropout with experts")
  refused(golden[17], function(_, c) c.use_dora = true end, {"use_dora and lora_bias must be false"}, "DoRA with experts")
  refused(golden[17], function(_, c) c.target_parameters = json.array{"experts.down_proj"} end, {"layers.0.mlp.experts.base_layer.lora_A.weight' fits no module"}, "other experts")
  refused(golden[23], function(_, c) c.rank_pattern = {["experts\\.1\\.w1"] = 5} end, {"the experts of 'model.layers.0.block_sparse_moe.experts.0.w1' must have the same rank"},
    "experts with two ranks")
  tap.fails(function() lora(m, {targets = {"up"}, dropout = 0.5}) end, {"dropout must be 0 for the experts' weight 'up', found 0.5"}, "dropout of experts")
  tap.fails(function() lora(m, {targets = {"up"}, dora = true}) end, {"dora must be false for the experts' weight 'up'"}, "DoRA of experts")
  tap.is(#tap.list(m:named_tensors(), function(found) return found.name:find("lora") or nil end), 0, "errors add no adapter")
  lora(m, {targets = {"up"}})
  tap.fails(function() lora(m, {targets = {"up"}}) end, {"the target 'up' has an adapter already"}, "a second adapter of experts")
  tap.fails(function() lora(m, adapter) end, {"models.lora: "}, "a folder for experts with adapters")
  write_base("llama")
  m = rille.models.load(base)
  for _, key in ipairs{"r", "lora_alpha", "peft_type", "target_modules"} do
    refused(golden[1], function(_, c) c[key] = nil end, {"adapter_config.json: " .. key .. " is missing"}, key .. " is missing")
  end
  write_adapter(golden[1])
  tap.write(adapter .. "/adapter_model.safetensors", tap.read(adapter .. "/adapter_model.safetensors"):sub(1, -9))
  tap.fails(function() lora(m, adapter) end, {"adapter_model.safetensors"}, "a truncated file")
end)

tap.group("options of any type", function()
  local values = {-1, 0.5, 1e300, "x", "(", true, json.array{1}, json.array{"x"}, json.array{json.null}, {a = 1}, {["("] = 2}}
  local m = rille.models.load(base)
  for _, key in ipairs{"peft_type", "r", "lora_alpha", "lora_dropout", "rank_pattern", "alpha_pattern", "use_rslora", "use_dora", "lora_bias", "bias",
    "init_lora_weights", "target_modules", "exclude_modules", "modules_to_save", "layers_to_transform", "layers_pattern"} do
    for i, value in ipairs(values) do
      if tap.share() then
        write_adapter(golden[1], function(_, c) c[key] = value end)
        local good, why = pcall(lora, m, adapter)
        tap.ok(good or why:find("models.lora: ", 1, true) and not why:find("attempt to", 1, true), ("%s, value %d: loads, or the error is clear"):format(key, i), why)
        if good then m = rille.models.load(base) end
      end
    end
  end
end)

tap.done()
