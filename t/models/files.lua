-- files.lua - tests language models in files: Hugging Face's folders, single and sharded files, and llm.c's
-- checkpoints. Errors must name the part that does not fit.
local tap = dofile("t/lib/tap.lua")
local json = require "rille.json"
local P2, P22 = rille.placement("cpu", {0, 1}), rille.placement("cpu", {{0, 1}, {2, 3}})

local sizes = {
  gpt2 = {vocab = 31, length = 12, layers = 2, heads = 2, width = 16},
  llama = {vocab = 31, length = 12, layers = 2, heads = 4, kv_heads = 2, width = 16, hidden = 24, theta = 5e5,
    rope_scaling = {rope_type = "llama3", factor = 8, low_freq_factor = 1, high_freq_factor = 4, original_max_position_embeddings = 8}},
  moe = {vocab = 31, length = 12, layers = 1, heads = 2, width = 16, experts = 4},
}
local function new(kind, more)
  local options = tap.with(sizes[kind], more)
  rille.manual_seed(5)
  return rille.models[kind].new(options)
end
local ids = rille.tensor({{3, 1, 4, 1, 5}}, {dtype = "i64"})
local function logits(m, where) return m(where and ids:to_global(where) or ids):totable() end
local function rewrite(at, change)
  local config = json.load(at .. "/config.json")
  change(config)
  tap.write(at .. "/config.json", json.encode(config))
end

for _, kind in ipairs{"gpt2", "llama", "moe"} do
  tap.group(kind, function()
    local load, m, at = rille.models[kind].load, new(kind), tap.folder()
    local want = logits(m)
    m:save(at)
    tap.is(logits(load(at)), want, kind .. ": save makes the folder, and load returns the same model")
    tap.is(logits(load(at .. "/model.safetensors")), want, kind .. ": load accepts the file's name")
    for _, l in ipairs{{P2, "B", "B"}, {P2, "S(0)", "B"}, {P22, {"B", "S(0)"}, {"S(0)", "B"}}} do
      local split = load(at, {placement = l[1], sbp = l[2]})
      tap.near(logits(split, {placement = l[1], sbp = l[3]}), want, ("%s: read as %s"):format(kind, split:parameters()[1].sbp), 1e-4, 1e-6)
    end
    m:save(at, {max_shard_size = "9KB"})
    tap.ok(io.open(at .. "/model.safetensors.index.json"), kind .. ": save writes shards")
    tap.is(logits(load(at)), want, kind .. ": load reads shards as the same model")
    rille.parallel(m:to_global{placement = P2, sbp = "B"}, {tensor = 0})
    m:save(at)
    tap.is({logits(load(at)), (io.open(at .. "/model.safetensors.index.json"))}, {want, nil}, kind .. ": a split model saves the same file and removes old shards")
    local half = new(kind, {dtype = "bf16"})
    half:save(at)
    tap.is({load(at):parameters()[1].dtype, load(at, {dtype = "f32"}):parameters()[1].dtype}, {"bf16", "f32"},
      kind .. ": the file's dtype is kept, unless another is requested")
    local mixed = rille.load(at .. "/model.safetensors")
    for name, x in pairs(mixed) do mixed[name] = x.ndim > 1 and x or x:to("f32") end
    rille.save(at, mixed, {max_shard_size = "1GB"})
    local found = tap.list(8, function() return load(at):parameters()[1].dtype end)
    tap.is(table.concat(found, " "), ("f32 "):rep(7) .. "f32", kind .. ": a file of several dtypes is loaded in the dtype that holds all, each time")
    half:save(at)
    rewrite(at, function(c) c.dtype, c.bos_token_id = "bfloat16", 7 end)
    load(at, {dtype = "f32"}):save(at)
    local saved = json.load(at .. "/config.json")
    tap.is({saved.torch_dtype, saved.dtype, saved.bos_token_id}, {"float32", "float32", 7},
      kind .. ": config.json has the saved dtype, and keeps entries that are not the model's")
    if kind == "gpt2" then
      rewrite(at, function(c) c.embd_pdrop, c.attn_pdrop, c.resid_pdrop = 0.1, 0.2, 0.3 end)
      local function rates(how)
        local reported = load(at, how)
        reported:save(at .. ".rates")
        local c = json.load(at .. ".rates/config.json")
        return {reported.dropout.p, c.embd_pdrop, c.attn_pdrop, c.resid_pdrop}
      end
      tap.is(rates(), {0, 0.1, 0.2, 0.3}, "gpt2: dropout rates of a config are kept, and dropout is off")
      tap.is(rates{dropout = 0.5}, {0.5, 0.5, 0.5, 0.5}, "gpt2: a requested dropout rate replaces them")
      m:save(at .. ".rates")
      tap.is(json.load(at .. ".rates/config.json").attn_pdrop, 0, "gpt2: a new model writes its rates, because 0 is not the format's default")
    end
    m:save(at)
    tap.is({load(at, {quantize = "int8"}):named_buffers()() ~= nil, (pcall(load, at, {quantize = "int2"}))}, {true, false},
      kind .. ": int8 on request")
    local t = rille.load(at .. "/model.safetensors")
    local function refused(words, name, change)
      local changed = tap.with(t)
      change(changed)
      rille.save(at, changed, {max_shard_size = "1GB"})
      words[#words + 1] = "files.lua"
      tap.fails(function() load(at) end, words, kind .. ": " .. name)
    end
    local some
    for n in pairs(t) do some = (n:find("norm") or n:find("ln_")) and n or some end
    refused({("'%s' is missing"):format(some)}, "a missing tensor", function(c) c[some] = nil end)
    refused({"'other.weight'"}, "a tensor that the model does not have", function(c) c["other.weight"] = rille.ones{1} end)
    refused({"{16} here, {3}"}, "a tensor of another shape", function(c) c[some] = rille.ones{3} end)
    if kind == "gpt2" then
      refused({"the size of 'h.0.attn.c_attn.weight' along its last axis must be divisible by 3, found"}, "a joined tensor that does not divide",
        function(c) c["h.0.attn.c_attn.weight"] = rille.ones{16, 47} end)
    end
    rille.save(at, t, {max_shard_size = "1GB"})
    rewrite(at, function(c) c.model_type = "bert" end)
    tap.fails(function() load(at) end, {('model_type must be "%s", found "bert"'):format(kind), "files.lua"}, kind .. ": a model of another kind")
    rewrite(at, function(c) c.model_type, c.kept, c.eos_token_id = kind, {"for", "others"}, {5, 3} end)
    local kept = load(at)
    tap.is({table.unpack(kept.config.eos_token_id)}, {5, 3}, kind .. ": eos_token_id is in the model's config")
    kept:save(at)
    tap.is({table.unpack(json.load(at .. "/config.json").eos_token_id)}, {5, 3}, kind .. ": eos_token_id is saved")
    tap.is(json.load(at .. "/config.json").kept[2], "others", kind .. ": other entries of config.json are kept")
    tap.fails(function() m:save(at .. "/config.json") end, {"is a file", "files.lua"}, kind .. ": saving to the name of a file is refused")
    tap.fails(function() load(at .. "x") end, {at .. "x", "files.lua"}, kind .. ": a missing folder is refused")
  end)
end

local function status(key)
  for line in io.lines("/proc/self/status") do
    local kb = line:match("^" .. key .. ":%s+(%d+)")
    if kb then return tonumber(kb) * 1024 end
  end
end
local P8 = rille.placement("cpu", {0, 1, 2, 3, 4, 5, 6, 7})

-- Loads a model on eight devices. If each device loaded a full copy, the process would need eight times the file's
-- size.
tap.group("a rank reads only what it holds", function()
  if tap.sanitized() then return tap.ok(true, "memory # SKIP a sanitizer keeps what was freed") end
  local at, big = tap.folder(), {vocab = 512, length = 64, layers = 6, heads = 8, width = 256}
  rille.models.gpt2.new(big):save(at)
  local bytes = assert(io.open(at .. "/model.safetensors")):seek("end")
  -- a sparse file: only zeros follow the header
  local llmc, d = assert(io.open(at .. "/big.bin", "wb")), big.width
  for _, n in ipairs{20240326, 3, big.length, big.vocab, big.layers, big.heads, d, big.vocab} do llmc:write(("<i4"):pack(n)) end
  llmc:seek("set", 1024 + 4 * ((big.vocab + big.length + 2) * d + big.layers * (12 * d * d + 13 * d)) - 1)
  llmc:write("\0")
  llmc:close()
  local function grows(path, options)
    collectgarbage()
    collectgarbage()
    local file = assert(io.open("/proc/self/clear_refs", "w"))
    file:write("5") -- resets the peak of resident memory
    file:close()
    local before = status("VmRSS")
    options.placement = P8
    local m = rille.models.gpt2.load(path, options)
    local most = status("VmHWM") - before
    return most < 2.5 * bytes, ("%.1f times the file (%s)"):format(most / bytes, m.h[1].fc1.weight.sbp)
  end
  for name, path in pairs{["a folder"] = at, ["llm.c"] = at .. "/big.bin"} do
    for _, o in ipairs{{parallel = {tensor = 0}}, {parallel = {data = 0, zero = 3}}, {sbp = "S(0)"},
      {sbp = function(param) return param:find("%.weight$") and "S(0)" end}} do
      local small, reported = grows(path, o)
      tap.ok(small, name .. ": " .. reported, reported)
    end
  end
end)

tap.group("layouts chosen before reading", function()
  local function layouts(m)
    local list = {}
    for name, p in m:named_parameters() do list[name] = ("%s %s"):format(p.sbp, table.concat(p.placement.ranks, ",")) end
    return list
  end
  for _, kind in ipairs{"gpt2", "llama", "moe"} do
    local load, m, at = rille.models[kind].load, new(kind, {layers = 2}), tap.folder()
    m:save(at)
    local recipes = {{P2, {tensor = 0}}, {P2, {data = 0, zero = 3}}, {P22, {data = 0, tensor = 1, sequence = true}},
      {P22, {tensor = {0, 1}, method = "2d"}}, {P2, {stages = {P2, rille.placement("cpu", {2, 3})}, tensor = 0}}, {P2, {}}}
    for i, recipe in ipairs(recipes) do
      if not tap.share() then goto next end
      local one = load(at, {placement = recipe[1]})
      local t = rille.parallel(one, recipe[2])
      local two = load(at, {placement = recipe[1], parallel = recipe[2]})
      tap.is(layouts(two), layouts(one), ("%s: recipe %d gives the same layouts"):format(kind, i))
      local where = rille.parallel.input(two)
      tap.is(tostring(where.sbp), tostring(rille.parallel.input(one).sbp), "the layout of ids is the same")
      local two_ids = tap.list(4, function(k) return {k, 1, 4, 1, 5, 9, 2, 6} end)
      two_ids = rille.tensor(two_ids, {dtype = "i64"}):to_global(where)
      tap.is(two(two_ids):totable(), one(two_ids):totable(), "the model gives the same bits")
      if i == 1 then tap.is(layouts(load(at, {placement = P2, parallel = t})), layouts(one), "a table of layouts is accepted as recipe") end
      ::next::
    end
    local small = load(at, {placement = P2, parallel = {tensor = 0}, quantize = "int8"})
    local later = load(at, {placement = P2, quantize = "int8"})
    rille.parallel(later, {tensor = 0})
    local whole = {placement = P2, sbp = "B"}
    tap.is(logits(small, whole), logits(later, whole), kind .. ": int8 weights give the same logits")
    tap.fails(function() load(at, {placement = P2, parallel = {tensor = 3}}) end, {"parallel", "a mesh axis must be from 0 to 0, found 3", "files.lua"},
      kind .. ": a recipe that does not fit")
    local named = load(at, {placement = P2, sbp = function(name) return name:find("q_proj.weight", 1, true) and "S(0)" end})
    local sbp = {}
    for name, p in named:named_parameters() do sbp[p.sbp] = sbp[p.sbp] or name end
    tap.ok(sbp["S(0)"]:find("q_proj.weight", 1, true) and sbp.B, kind .. ": sbp may be a function of the parameter's name")
    tap.near(logits(named, whole), logits(m), "sbp as a function changes no value", 1e-4, 1e-6)
  end
end)

tap.group("entries missing in config.json", function()
  local at = tap.folder()
  for kind, says in pairs{gpt2 = {word = "layer_norm_epsilon", eps = 1e-5}, llama = {word = "rms_norm_eps", eps = 1e-6}} do
    new(kind):save(at)
    rewrite(at, function(c) c[says.word] = nil end)
    tap.is(rille.models[kind].load(at).config.eps, says.eps, kind .. ": without eps, config.json means the default of its format")
  end
end)

tap.group("names", function()
  local m, at = new("gpt2"), tap.folder()
  local want = logits(m)
  m:save(at)
  local t, long = rille.load(at .. "/model.safetensors"), {}
  for name, x in pairs(t) do long["transformer." .. name] = x end
  long["lm_head.weight"] = t["wte.weight"]
  long["transformer.h.0.attn.bias"] = rille.ones{1, 1, 12, 12}
  rille.save(at, long, {max_shard_size = "1GB"})
  tap.is(logits(rille.models.gpt2.load(at)), want, "accepted: names with prefix transformer., a head equal to the table, an unused mask")
  long["lm_head.weight"] = rille.ones{31, 16}
  rille.save(at, long, {max_shard_size = "1GB"})
  tap.fails(function() rille.models.gpt2.load(at) end, {"lm_head.weight", "differ"}, "a tied head that differs from the table")
  rewrite(at, function(c) c.tie_word_embeddings = false end)
  tap.ok(not rawequal(rille.models.gpt2.load(at).lm_head.weight, rille.models.gpt2.load(at).wte.weight), "an untied head is a tensor of its own")
end)

tap.group("saved int8 weights", function()
  local at, P2 = tap.folder(), rille.placement("cpu", {0, 1})
  for kind in tap.sorted(sizes) do
    for _, dtype in ipairs{"f32", "bf16"} do
      local load, name = rille.models[kind].load, kind .. " " .. dtype
      new(kind):save(at)
      local small = load(at, {quantize = "int8", dtype = dtype})
      local want = logits(small)
      small:save(at)
      local again = load(at)
      tap.is({again:parameters()[1].dtype, again.quantized, logits(again)}, {dtype, "int8", want}, name .. ": int8 weights are saved and loaded")
      local two = load(at, {placement = P2, parallel = {tensor = 0}})
      local rough = dtype == "f32" and 1e-4 or 0.05
      tap.near(logits(two, {placement = P2, sbp = "B"}), want, name .. ": int8 weights are loaded in the layout of a recipe", rough, rough)
    end
  end
end)

-- Changes a model so that it differs from the config.json that would be saved. Saving must fail, and must write
-- nothing.
tap.group("models that differ from their config", function()
  local at, nn = tap.folder() .. "/none", rille.nn
  local function refused(kind, words, name, change)
    local m = new(kind)
    change(m)
    words[#words + 1], words[#words + 2] = "its config", "files.lua"
    tap.fails(function() m:save(at) end, words, ("%s: %s"):format(kind, name))
    tap.ok(not io.open(at), "nothing is written")
  end
  refused("gpt2", {"'h.0.fc1.bias' is missing"}, "a layer without its bias", function(m) m.h[1].fc1 = nn.Linear(16, 64, {bias = false}) end)
  refused("gpt2", {"'extra.weight'"}, "an extra layer", function(m) m.extra = nn.Linear(16, 16) end)
  refused("gpt2", {"'h.2."}, "an extra block", function(m) m.h[3] = nn.TransformerBlock(16, 2) end)
  refused("gpt2", {"'h.1.", "is missing"}, "a missing block", function(m) m.h[2] = nil end)
  refused("gpt2", {"'h.1.", "is missing", "and 8 more"}, "a block that occurs twice", function(m) m.h[2] = m.h[1] end)
  refused("gpt2", {"'lm_head.weight' is a tensor of its own"}, "a separate head", function(m) m.lm_head = nn.Linear(16, 31, {bias = false}) end)
  refused("llama", {"'lm_head.weight' is 'embed_tokens.weight'"}, "a head tied to the table", function(m)
    nn.tie(m.embed_tokens, "weight", m.lm_head, "weight")
  end)
  refused("gpt2", {"'wpe.weight' is {7, 16}; the config says {12, 16}"}, "positions of another length", function(m) m.wpe = nn.Positions(7, 16) end)
  refused("gpt2", {"'ln_f.eps' is 0.5"}, "another eps", function(m) m.ln_f.eps = 0.5 end)
  refused("gpt2", {"'h.0.how.approximate' is \"none\""}, "another activation", function(m) m.h[1].how.approximate = "none" end)
  refused("gpt2", {"'h.0.attention.heads' is 2; the config says 4"}, "a config of other heads", function(m) m.config.heads = 4 end)
  refused("gpt2", {"'h.0' is nn.Sequential"}, "another module with the same tensors", function(m)
    local seq = nn.Sequential()
    for _, k in ipairs{"norm1", "attention", "norm2", "fc1", "fc2"} do seq[k] = m.h[1][k] end
    m.h[1] = seq
  end)
  refused("gpt2", {"'forward' is a function"}, "a forward of its own", function(m) rawset(m, "forward", function() end) end)
  refused("moe", {"'h.0.mlp.top_k' is 1"}, "another top_k", function(m) m.h[1].mlp.top_k = 1 end)
  refused("moe", {"'h.0.mlp.up' is {2, "}, "fewer experts", function(m) m.h[1].mlp = nn.MixtureOfExperts(16, 64, 2) end)
  refused("llama", {"'layers.0.attention.rotary.base' is 500; the config says 500000"}, "another rotary base", function(m)
    m.layers[1].attention.rotary.base = 500
  end)
  refused("llama", {"rotary.base' is 500000.0; the config says 500;"}, "a config of another theta", function(m) m.config.theta = 500 end)
  refused("llama", {"rotary.scaling.factor' is 8; the config says nil"}, "a config without position scaling", function(m)
    m.config.rope_scaling = nil
  end)
  refused("llama", {"rotary.scaling.low_freq_factor' is nil; the config says 1"}, "another position scaling", function(m)
    m.layers[1].attention.rotary.scaling = {rope_type = "linear", factor = 8}
  end)
  refused("llama", {"'layers.1.attention.rotary' is nil"}, "a block without rotary positions", function(m) m.layers[2].attention.rotary = nil end)
  local m = new("gpt2", {dropout = 0.1})
  m.dropout.p, m.note, m.wte.weight.requires_grad = 0.3, {"mine"}, false
  rille.manual_seed(3)
  m:eval():save(at)
  local drawn = rille.rand({2}):totable()
  rille.manual_seed(3)
  tap.is(drawn, rille.rand({2}):totable(), "save draws no random number")
  tap.is(logits(rille.models.gpt2.load(at)), logits(m), "dropout, notes and frozen parameters do not change the model")
end)

-- Tries every truncation of config.json and of the shard index.
tap.group("truncated files", function()
  for _, kind in ipairs{"gpt2", "llama", "moe"} do
    local at = tap.folder()
    new(kind):save(at, {max_shard_size = "9KB"})
    for _, name in ipairs{"config.json", "model.safetensors.index.json"} do
      local path, wrong = at .. "/" .. name, {}
      local text = tap.read(path)
      for cut = 0, #text:gsub("%s+$", "") - 1 do
        if not tap.share() then goto next end
        tap.write(path, text:sub(1, cut))
        local good, why = pcall(rille.models[kind].load, at)
        if good or not (tostring(why):find("^[^:]*files.lua:%d+: ") and why:find(path, 1, true)) then
          wrong[#wrong + 1] = ("%d bytes: %s"):format(cut, why)
        end
        ::next::
      end
      for what, how in tap.sorted{["has 300000000 bytes, more than"] = "truncate -s 300000000 '%s'", ["not a regular file"] = "ln -s /dev/zero '%s'",
        [": not a regular file"] = "mkfifo '%s'",
        ["a pointer of Git LFS, not the file itself"] = "printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:0\\nsize 9\\n' >'%s'"} do
        if not tap.share() then goto next end
        os.remove(path)
        os.execute(how:format(path))
        tap.fails(function() rille.models[kind].load(at) end, {"files.lua:", path, what}, ("%s: an impossible %s is refused"):format(kind, name))
        ::next::
      end
      os.remove(path)
      tap.write(path, text)
      tap.is(wrong, {}, ("%s: each truncation of %s (%d bytes) is refused at the user's line, with the file's name"):format(kind, name, #text))
    end
  end
end)

-- Changes each entry of config.json. The result must be another model, or an error at the line that loads it.
tap.group("damaged config.json", function()
  for _, kind in ipairs{"gpt2", "llama", "moe"} do
    local at, loaded, wrong, refused = tap.folder(), 0, {}, 0
    new(kind):save(at)
    local whole = json.load(at .. "/config.json")
    for _, word in ipairs(require("rille.base.check").sorted_keys(whole)) do
      for _, value in ipairs{"none", 0, -1, 1.5, "x", {1}, true, 7, 33, 1e99, 2000000000, 1 << 40} do
        if not tap.share() then goto next end
        rewrite(at, function(c)
          for k, v in pairs(whole) do c[k] = v end
          c[word] = value ~= "none" and value or nil
        end)
        local good, why = pcall(rille.models[kind].load, at)
        if good then loaded = loaded + 1 else refused = refused + 1 end
        if not good and not (tostring(why):find("^[^:]*files.lua:%d+: ") and why:find(at, 1, true)) then
          wrong[#wrong + 1] = ("%s = %s: %s"):format(word, json.encode{value}, why)
        end
        ::next::
      end
    end
    tap.is(wrong, {}, kind .. ": a config that does not fit is refused at the user's line, with the file's name")
    tap.ok(tap.which or loaded > 0 and refused > loaded, kind .. ": some entries may have other values")
    rewrite(at, function(c)
      for k, v in pairs(whole) do c[k] = v end
      for k in pairs(c) do
        if k:find("layer") and k:find("^n") then c[k] = 2000000000 end
      end
    end)
    tap.fails(function() rille.models[kind].load(at) end, {"layers", "tensors", at}, kind .. ": more layers than the file has tensors")
    rewrite(at, function(c)
      for k in pairs(c) do
        if k:find("vocab") then c[k] = nil end
      end
    end)
    tap.fails(function() rille.models[kind].load(at) end, {"vocab_size", "positive integer", at .. "/config.json"}, kind .. ": a missing size is named with its file")
    rewrite(at, function(c)
      for k, v in pairs(whole) do c[k] = v end
      c[kind == "llama" and "hidden_act" or "n_head"] = kind == "llama" and {} or 5
    end)
    tap.fails(function() rille.models[kind].load(at) end, {"files.lua:", ": models." .. kind .. ": " .. at,
      kind == "llama" and "unknown activation a table" or "config.json: width = 16 must be divisible by heads = 5; heads = 1, 2"}, kind .. ": errors of layers name the file, too")
    os.execute(("rm -rf '%s'"):format(at))
  end
end)

tap.group("options in config.json", function()
  local at = tap.folder()
  local bad = {
    gpt2 = {tie_word_embeddings = {"no", 1}, layer_norm_epsilon = {"x", -1}, activation_function = {"swish", 3}},
    llama = {tie_word_embeddings = {"no"}, rms_norm_eps = {"x", -1}, rope_theta = {"x", 0}, rope_scaling = {"x", {rope_type = "yarn"}},
      rope_parameters = {3, {rope_type = "yarn"}, {rope_theta = "x"}, {partial_rotary_factor = "x"}}, partial_rotary_factor = {0, "x"}},
    moe = {layer_norm_epsilon = {"x", -1}},
  }
  for _, kind in ipairs{"moe", "llama", "gpt2"} do
    new(kind):save(at)
    local whole, unnamed = json.load(at .. "/config.json"), {}
    for word, values in pairs(bad[kind]) do
      for _, value in ipairs(values) do
        rewrite(at, function(c) c[word] = value end)
        local good, err = pcall(rille.models[kind].load, at)
        if good or not tostring(err):find(at .. "/config.json: .*" .. word) then unnamed[#unnamed + 1] = ("%s: %s"):format(word, err) end
        rewrite(at, function(c) c[word] = whole[word] end)
      end
    end
    tap.is(unnamed, {}, kind .. ": an invalid value is refused with the file and the entry")
  end
  os.execute(("sed -i 's/\"layer_norm_epsilon\": *[^,}]*/\"layer_norm_epsilon\":1e999/' '%s/config.json'"):format(at))
  tap.fails(function() rille.models.gpt2.load(at) end, {"config.json: line", "1e999"}, "a number that overflows is refused")
end)

-- Tests rope_parameters, Hugging Face's newer form of rotary settings.
tap.group("rope_parameters", function()
  local m, at = new("llama"), tap.folder()
  m:save(at)
  local said = json.load(at .. "/config.json")
  tap.is({math.type(said.rope_theta), math.type(said.rope_scaling.factor), math.type(said.rope_scaling.original_max_position_embeddings)},
    {"float", "float", "integer"}, "factors are written with a decimal point, as some readers require")
  rewrite(at, function(c)
    c.rope_parameters = c.rope_scaling
    c.rope_parameters.rope_theta, c.rope_theta, c.rope_scaling = c.rope_theta, nil, nil
  end)
  tap.is(logits(rille.models.llama.load(at)), logits(m), "rope_parameters means rope_theta and rope_scaling")
  rewrite(at, function(c)
    c.rope_parameters.partial_rotary_factor, c.rope_scaling, c.eos_token_id = json.null, {type = "linear", factor = 2, more = json.null}, json.null
  end)
  local scaled = rille.models.llama.load(at)
  tap.is(scaled.config.rope_scaling, {type = "linear", factor = 2}, "null means a missing entry, also in a nested table")
  scaled:save(at)
  tap.is(logits(rille.models.llama.load(at)), logits(scaled), "such a model can be saved and loaded")
  for _, where in ipairs{"rope_parameters", "rope_scaling"} do
    rewrite(at, function(c)
      c.rope_theta, c.rope_parameters, c.rope_scaling = nil, nil, nil
      c[where] = {rope_type = "linear", factor = 2.0, rope_theta = 500.0}
    end)
    local other = rille.models.llama.load(at)
    tap.is(other.config.theta, 500.0, "a rope_theta in " .. where)
    other:save(at)
    tap.is(rille.models.llama.load(at).config.theta, 500.0, "rope_theta can be saved and loaded")
    rewrite(at, function(c) c.rope_theta = 1000.0 end)
    tap.fails(function() rille.models.llama.load(at) end, {at .. "/config.json", "rope_theta must be the same", "found 1000.0 and 500.0"}, "two different rope_theta are refused")
  end
  rewrite(at, function(c) c.rope_scaling, c.rope_parameters, c.rope_theta = nil, {rope_type = "other"}, nil end)
  tap.fails(function() rille.models.llama.load(at) end, {"other", "llama3"}, "an unknown scaling")
end)

tap.done()
