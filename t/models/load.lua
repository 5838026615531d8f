-- load.lua - tests rille.models.load: it detects the kind of a folder, and reads older entries of config.json.
-- Errors of damaged entries name the file and point at the user's line.
local tap = dofile("t/lib/tap.lua")
local check = require "rille.base.check"
local json = require "rille.json"
local describe = require "rille.models.loading.describe"
local kinds = require "rille.models.loading.kinds"
local golden = dofile("t/golden/models/families.lua")
local encoders = dofile("t/golden/models/encoders.lua")
local towers = dofile("t/golden/models/towers.lua")
local families = dofile("t/lib/families.lua")

local dir = tap.folder() .. "/x"
local function remove(path) os.execute(("rm -rf '%s'"):format(path)) end

-- Returns a copy of t without metatables, also in nested tables.
local function plain(t)
  local c = {}
  for k, v in pairs(t) do c[k] = type(v) == "table" and plain(v) or v end
  return c
end

-- Collects the first entry of each model_type.
local first, seen = {}, {}
for _, list in ipairs{golden, encoders, towers} do
  for _, entry in ipairs(list) do
    local model_type = families.words(entry).model_type
    if not seen[model_type] then first[#first + 1], seen[model_type] = entry, entry end
  end
end

tap.group("kinds", function()
  for _, model_type in ipairs(kinds.list()) do
    tap.ok(seen[model_type], model_type .. " has an entry in t/golden/models/families.lua, encoders.lua or towers.lua")
  end
  local sizes = {vocab = 31, length = 12, layers = 2, heads = 2, width = 16}
  local ids = rille.tensor({{3, 1, 4}}, {dtype = "i64"})
  for _, kind in ipairs{"gpt2", "llama", "moe"} do
    local m = rille.models[kind].new(sizes)
    m:save(dir)
    local other = rille.models.load(dir, {dtype = "f32"})
    tap.is({other.__name, other(ids):totable()}, {"models." .. kind, m(ids):totable()}, kind .. " is loaded as its class")
    tap.is(rille.models.load(dir .. "/model.safetensors")(ids):totable(), m(ids):totable(), kind .. ": load accepts the file's name")
    remove(dir)
  end
  os.execute(("mkdir '%s'"):format(dir))
  families.write_words({model_type = "mamba"}, dir)
  tap.fails(function() rille.models.load(dir) end, {"load.lua", dir .. "/config.json", 'unknown model_type "mamba"; expected one of: albert, arcee, aria_text, bert',
    "gpt2", "stablelm"}, "an unknown kind")
  families.write_words({vocab_size = 3}, dir)
  tap.fails(function() rille.models.load(dir) end, {dir .. "/config.json has no model_type; expected one of: albert, arcee, aria_text, bert"}, "no kind")
  remove(dir)
  tap.fails(function() rille.models.load(dir) end, {"load.lua", dir}, "a missing folder")
  tap.fails(function() rille.models.load(3) end, {"load.lua", "models.load"}, "no name")
end)

tap.group("tensors", function()
  families.write(first[1], dir)
  local t = rille.load(dir .. "/model.safetensors")
  local bare = {}
  for name, x in pairs(t) do bare[(name:gsub("^model%.", ""))] = x end
  rille.save(dir, bare, {max_shard_size = "1GB"})
  tap.ok(rille.models.load(dir), "names without their prefix are accepted")
  t["model.layers.0.self_attn.q_proj.bias"] = rille.ones{32}
  rille.save(dir, t, {max_shard_size = "1GB"})
  tap.fails(function() rille.models.load(dir) end, {"q_proj.bias' is not a tensor of llama"}, "a tensor that the config does not have")
  remove(dir)
end)

-- Replaces each tensor in a file of each kind by a tensor of another shape, and removes each tensor. Skips layers and
-- experts after the first.
tap.group("tensors of other shapes", function()
  local shapes = {false, {}, {3}, {6, 5}, {2, 3, 4}, {1 << 20, 1}}
  local turn = 0
  for _, entry in ipairs(first) do
    if not tap.share() then goto next end
    families.write(entry, dir)
    local given, wrong = rille.load(dir .. "/model.safetensors"), {}
    for _, name in ipairs(check.sorted_keys(given)) do
      for _, shape in ipairs(name:find("%.[1-9]%d*%.") and {} or shapes) do
        turn = turn + 1
        if turn % 5 == 0 or os.getenv "RILLE_LONG" then
          local changed = tap.with(given)
          changed[name] = shape and rille.zeros(shape) or nil
          rille.save(dir .. "/model.safetensors", changed)
          local same = shape and table.concat(shape, "x") == table.concat(given[name].shape, "x")
          local good, why = pcall(rille.models.load, dir)
          local told = tostring(why):find("^[^:]*load.lua:%d+: ") and why:find(dir, 1, true)
          if not same and (good or not told) then wrong[#wrong + 1] = ("%s {%s}: %s"):format(name, table.concat(shape or {}, ", "), good and "loaded" or tostring(why):sub(1, 300)) end
        end
      end
    end
    tap.is(wrong, {}, entry.name .. ": each other shape is refused at the user's line, with the file's name")
    remove(dir)
    ::next::
  end
end)

-- Saves a folder whose weights are bf16, but whose routers' corrections are f32. All bits must stay the same.
-- Folders of models that also read images or sound: the names of their language model, and whether it has a head.
local text_parts = {
  {"gemma3", "gemma3_text", {["model."] = "language_model.model."}}, {"mistral3", "mistral", {["model."] = "language_model.model."}},
  {"llava", "llama", {["model."] = "language_model.model.", ["lm_head."] = "language_model.lm_head."}, true},
  {"llava_onevision", "qwen2", {["model."] = "model.language_model.", ["lm_head."] = "lm_head."}, true},
  {"smolvlm", "llama", {["model."] = "model.text_model.", ["lm_head."] = "lm_head."}, true},
}

tap.group("language models of models for images and sound", function()
  local ids = rille.tensor({{3, 1, 4, 1, 5}}, {dtype = "i64"})
  for _, case in ipairs(text_parts) do
    local outer, inner, prefixes, has_head = table.unpack(case)
    families.write(seen[inner], dir)
    local words, tensors = families.words(seen[inner]), {["vision_tower.embed.weight"] = rille.ones{3}, ["multi_modal_projector.bias"] = rille.ones{2}}
    local own = rille.load(dir .. "/model.safetensors")
    if not has_head then own["lm_head.weight"] = nil end
    for name, t in pairs(own) do
      for from, to in pairs(prefixes) do
        if name:sub(1, #from) == from then tensors[to .. name:sub(#from + 1)] = t end
      end
    end
    words.tie_word_embeddings = not has_head
    rille.save(dir, own, {max_shard_size = "1GB"})
    families.write_words(words, dir)
    local want = rille.models.load(dir)
    remove(dir)
    rille.save(dir, tensors, {max_shard_size = "1GB"})
    families.write_words({model_type = outer, text_config = words, vision_config = {}, eos_token_id = 7}, dir)
    local m = rille.models.load(dir)
    tap.is({m.__name, m(ids):totable(), m.config.eos_token_id}, {"models." .. inner, want(ids):totable(), words.eos_token_id or 7},
      outer .. ": its language model is loaded as " .. inner)
    m:save(dir .. "/saved")
    tap.is({rille.models.load(dir .. "/saved")(ids):totable(), json.load(dir .. "/saved/config.json").model_type}, {m(ids):totable(), inner},
      outer .. ": and saved as " .. inner)
    for _, text in ipairs{false, {}, {model_type = "mamba"}, {model_type = 3}} do
      families.write_words({model_type = outer, text_config = text or nil}, dir)
      tap.fails(function() rille.models.load(dir) end, {dir .. "/config.json", not text and "text_config" or text.model_type and "model_type" or "text_config"},
        ("%s: text_config = %s"):format(outer, text and json.encode(text) or "none"))
    end
    remove(dir)
  end
end)

tap.group("bf16", function()
  for _, entry in ipairs(first) do
    if not tap.share() then goto next end
    families.write(entry, dir)
    local given, wrong = rille.load(dir .. "/model.safetensors"), {}
    for name, t in pairs(given) do given[name] = (name:find("correction") or name:find("expert_bias") or t.dtype ~= "f32") and t or t:to("bf16") end
    rille.save(dir, given, {max_shard_size = "1GB"})
    local m = rille.models.load(dir)
    m:save(dir .. ".saved")
    local saved = rille.load(dir .. ".saved/model.safetensors")
    for name, t in pairs(given) do
      if not (saved[name] and saved[name].dtype == t.dtype and t:eq(saved[name]):all():item()) then wrong[#wrong + 1] = name end
    end
    tap.is({wrong, m:parameters()[1].dtype}, {{}, "bf16"}, entry.name .. ": bf16 tensors are loaded and saved with the same bits")
    remove(dir)
    remove(dir .. ".saved")
    ::next::
  end
end)

-- Loads folders of older versions: their config.json has rotary settings at its top level, and no list of layer
-- types.
tap.group("older words", function()
  local patterns = {gemma2 = true, gemma3_text = true, cohere2 = true, olmo3 = true, gpt_oss = true, exaone4 = true, smollm3 = true, cwm = true}
  for _, entry in ipairs(golden) do
    local words = families.words(entry)
    local model_type, rope = words.model_type, words.rope_parameters
    local want = describe.of(model_type, families.words(entry))
    if patterns[model_type] then words.layer_types, words.no_rope_layers = nil, nil end
    if rope then
      local full = rope.full_attention or rope
      words.rope_parameters, words.rope_theta, words.partial_rotary_factor = nil, full.rope_theta, full.partial_rotary_factor
      if model_type == "gemma3_text" then words.rope_local_base_freq = rope.sliding_attention.rope_theta end
      if full.rope_type ~= "default" then
        words.rope_scaling = tap.with(full)
        words.rope_scaling.partial_rotary_factor = nil
      end
    end
    tap.is(plain(describe.of(model_type, words)), plain(want), entry.name .. ": older words have the same description")
  end
end)

-- Changes each entry of config.json, also in nested tables.
tap.group("damaged words", function()
  local values = {"none", 0, -1, 1.5, "x", {1}, true, false, 7, 33, 1e99, 2000000000, 1 << 40, {a = "b"}}
  local turn, loaded, refused = 0, 0, 0
  for _, entry in ipairs(first) do
    if not tap.share() then goto next end
    families.write(entry, dir)
    local whole, wrong = families.words(entry), {}
    local function try(what, words)
      families.write_words(words, dir)
      local good, why = pcall(rille.models.load, dir)
      if good then loaded = loaded + 1 else refused = refused + 1 end
      if good and why.generate and why.config.vocab and loaded % 5 == 0 then
        local writes, fault = pcall(why.generate, why, {{1}}, {max_new_tokens = 1, temperature = 0})
        if not writes and fault:find("attempt to", 1, true) then wrong[#wrong + 1] = ("%s: %s"):format(what, fault) end
      end
      if not good and (why:find("attempt to", 1, true) or not (why:find("^[^:]*load.lua:%d+: ") and why:find(dir, 1, true))) then
        wrong[#wrong + 1] = ("%s: %s"):format(what, why)
      end
    end
    local function change(t, word, with)
      for _, value in ipairs(values) do
        turn = turn + 1
        if turn % 11 == 0 or os.getenv "RILLE_LONG" then
          local changed = tap.with(t)
          changed[word] = value ~= "none" and value or nil
          try(word, with(changed))
        end
      end
    end
    for _, word in ipairs(check.sorted_keys(whole)) do
      change(whole, word, function(words) return words end)
      for _, inner in ipairs(type(whole[word]) == "table" and check.sorted_keys(whole[word]) or {}) do
        change(whole[word], inner, function(t)
          local words = tap.with(whole)
          words[word] = t
          return words
        end)
      end
    end
    tap.is(wrong, {}, entry.name .. ": damaged words are refused at the user's line, with the file's name")
    remove(dir)
    ::next::
  end
  tap.ok(tap.which or loaded > 0 and refused > loaded, ("%d changes load, %d are refused"):format(loaded, refused))
end)

tap.group("choices that other models support", function()
  local words = {gemma3_text = {use_bidirectional_attention = true}, llama = {rope_parameters = {rope_theta = 1e4, partial_rotary_factor = 0.5}}}
  for _, entry in ipairs(golden) do
    local more = words[entry.name]
    if more then
      families.write(entry, dir)
      families.write_words(tap.with(families.words(entry), more), dir)
      local text = more.rope_parameters and "partial_rotary_factor must be 1 for models of this kind, found 0.5" or "use_bidirectional_attention must be false"
      tap.fails(function() rille.models.load(dir) end, {dir .. "/config.json", text}, text)
      remove(dir)
    end
  end
end)

tap.group("missing keys", function()
  -- name of an entry, a key, its default in transformers; "no": null, which differs from a missing key
  local cases = {{"gemma2", "attn_logit_softcapping", 50.0, "no"}, {"gemma2", "rms_norm_eps", 1e-06}, {"mistral", "sliding_window", 4096, "no"},
    {"phi", "hidden_act", "gelu_new"}, {"gpt_neox", "hidden_act", "gelu"}, {"deepseek_v3", "routed_scaling_factor", 2.5},
    {"mixtral", "rope_theta", 1e6}, {"nemotron", "hidden_act", "relu2"}}
  for _, case in ipairs(cases) do
    local name, key, value, null = table.unpack(case)
    for _, entry in ipairs(golden) do
      if entry.name == name then
        local what = ("%s without %s"):format(name, key)
        families.write(entry, dir)
        local function config_with(v)
          local words = families.words(entry)
          if key == "rope_theta" then words.rope_parameters = nil end
          words[key] = v
          families.write_words(words, dir)
          return json.encode(plain(rille.models.load(dir).config))
        end
        tap.is(config_with(nil), config_with(value), what .. " has the default of transformers")
        if null then tap.ok(config_with(json.null) ~= config_with(value), what .. ": null is no missing key") end
        remove(dir)
      end
    end
  end
end)

tap.group("groups of experts", function()
  for _, entry in ipairs(golden) do
    if entry.name == "deepseek_v3" then
      families.write(entry, dir)
      local function refused(words, text)
        families.write_words(tap.with(families.words(entry), words), dir)
        tap.fails(function() rille.models.load(dir) end, {dir .. "/config.json", text}, text)
      end
      local count = families.words(entry).n_routed_experts
      refused({n_group = count + 1}, ("n_group must divide %d, the number of experts, into groups of at least 2; found %d"):format(count, count + 1))
      refused({n_group = count}, "into groups of at least 2; found " .. count)
      refused({n_group = 2, topk_group = 3}, "topk_group must be at most n_group = 2, found 3")
      remove(dir)
    end
  end
end)

tap.done()
