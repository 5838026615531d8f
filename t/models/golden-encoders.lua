-- golden-encoders.lua - tests that rille.models.load reads Hugging Face's encoders. Outputs, gradients and vectors of texts must
-- match t/golden/models/encoders.lua, on one device and under recipes, and a saved folder must have the same tensors.
local tap = dofile("t/lib/tap.lua")
local golden = dofile("t/golden/models/encoders.lua")
local families = dofile("t/lib/families.lua")
local spread, summed, gradient_of = families.spread, families.summed, families.gradient

local dir = tap.folder()

-- Returns a tensor {rows, length} of integers in [from, to), determined by name.
local function integers(name, from, to)
  local list = tap.list(spread(name, golden.rows * golden.length), function(v) return math.floor((v + 1) / 2 * (to - from) + from) end)
  return rille.tensor(list, {dtype = "i64"}):reshape{golden.rows, golden.length}
end

local named = {} -- entry by name
for _, entry in ipairs(golden) do named[entry.name] = entry end

local counts = rille.arange(golden.length):reshape{1, golden.length}:lt(rille.tensor({{golden.length}, {golden.second}}, {dtype = "i64"}))

local function inputs(entry)
  local padding = families.words(entry).pad_token_id
  return rille.where(counts, integers("ids", 3, golden.vocab), padding), {mask = counts,
    types = entry.types > 0 and integers("types", 0, entry.types) or nil}
end

local function moved(ids, given, where)
  if not where then return ids, given end
  local other = {}
  for name, t in pairs(given) do other[name] = t:to_global(where) end
  return ids:to_global(where), other
end

local function second(t)
  local row = t:slice(0, 1, 2):reshape{-1}
  return row:slice(0, 0, math.min(6, row.shape[1])):totable()
end

-- Compares a model with an entry of the golden file. where: layout of the inputs; nil: one device.
local function compare(entry, model, what, where)
  local ids, given = moved(inputs(entry))
  ids, given = moved(ids, given, where)
  local out = model(ids, given)
  local weight = out.ndim == 3 and given.mask:to("f32"):reshape{golden.rows, golden.length, 1} or 1
  tap.near(second(out), entry.out, what .. ": outputs", 1e-5, 1e-5)
  tap.near(summed(out * weight, "all"):item(), entry.all, what .. ": all outputs", 1e-5, 1e-4)
  tap.near(second(model:embed(ids, {mask = given.mask, types = given.types, pooling = "mean"})), entry.mean, what .. ": means of features", 1e-5, 1e-5)
  local loss = summed(out * weight, "loss")
  if entry.pooled then
    local pooled = model:embed(ids, {mask = given.mask, types = given.types, pooling = "pooler"})
    tap.near(second(pooled), entry.pooled, what .. ": pooler", 1e-5, 1e-5)
    loss = loss + summed(pooled, "pooled")
  end
  loss:backward()
  local sum, absolute = gradient_of(model)
  tap.near({sum / entry.absolute, absolute / entry.absolute}, {entry.gradient / entry.absolute, 1}, what .. ": gradients", 0, 2e-5)
end

-- Folders of nomic_bert that are older than transformers' class have GPT-2's words in config.json.
tap.group("the old words of nomic_bert", function()
  local entry, at = named["nomic_bert base"], dir .. "/old"
  os.execute(("mkdir '%s'"):format(at))
  families.write(entry, at)
  local old = {architectures = {"NomicBertModel"}, model_type = "nomic_bert", vocab_size = golden.vocab, n_embd = 32, n_head = 4, n_inner = 48, n_layer = 2,
    n_positions = 64, activation_function = "swiglu", layer_norm_epsilon = 1e-12, rotary_emb_base = 1000, rotary_emb_fraction = 1.0,
    rotary_emb_interleaved = false, qkv_proj_bias = false, prenorm = false, use_rms_norm = false, type_vocab_size = 2}
  families.write_words(old, at)
  compare(entry, rille.models.load(at), "old words")
  for word, value in pairs{rotary_emb_fraction = 0.5, prenorm = true, mlp_fc1_bias = true, rotary_scaling_factor = 2, rotary_emb_base = -1} do
    local kept = old[word]
    old[word] = value
    families.write_words(old, at)
    tap.fails(function() rille.models.load(at) end, {at .. "/config.json", word}, word .. ": another value is refused")
    old[word] = kept
  end
end)

local P2 = rille.placement("cpu", {0, 1})
local recipes = {{"data", {data = 0}}, {"data, zero 3", {data = 0, zero = 3}}, {"tensor", {tensor = 0}}}

for number, entry in ipairs(golden) do
  if tap.share() then tap.group(entry.name, function()
    local at = dir .. "/" .. entry.name:gsub(" ", "-")
    local count, digest = families.write(entry, at)
    tap.is({count, digest}, {entry.tensors, entry.digest}, entry.name .. ": names and shapes of tensors")
    local model = rille.models.load(at)
    compare(entry, model, entry.name)
    model:save(dir .. "/saved")
    tap.is(families.same_tensors(at, dir .. "/saved"), true, entry.name .. ": the saved folder has the same tensors")
    for k, r in ipairs(recipes) do
      if k == number % #recipes + 1 or os.getenv "RILLE_LONG" then
        local laid = rille.models.load(at, {placement = P2, parallel = r[2]})
        compare(entry, laid, entry.name .. ", " .. r[1], rille.parallel.input(laid))
      end
    end
    os.execute(("rm -rf '%s' '%s/saved'"):format(at, dir))
  end) end
end
-- ---- folders of sentence-transformers ----

local MODULES = [=[[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
  {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.%s"}%s]]=]
local NORMALIZE = ', {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}'

tap.group("sentences", function()
  local at, entry = dir .. "/sentences", named["bert base"]
  families.write(entry, at)
  os.execute(("mkdir '%s/1_Pooling'"):format(at))
  local ids, given = inputs(entry)
  local x = rille.models.load(at):features(ids, given)
  local text = x:slice(0, 1, 2):slice(1, 0, golden.second)
  local want = {cls_token = text:slice(1, 0, 1):reshape{-1}, mean_tokens = text:mean{axis = 1}:reshape{-1}, max_tokens = text:max{axis = 1}:reshape{-1}}
  for mode, y in pairs(want) do
    for _, normalise in ipairs{false, true} do
      tap.write(at .. "/modules.json", MODULES:format("Pooling", normalise and NORMALIZE or ""))
      tap.write(at .. "/1_Pooling/config.json", ('{"word_embedding_dimension": 32, "pooling_mode_%s": true}'):format(mode))
      local model = rille.models.load(at)
      local vectors = model:embed(ids, given)
      if normalise then y = y / y:square():sum():sqrt() end
      tap.near(vectors:slice(0, 1, 2):reshape{-1}:totable(), y:totable(), mode .. (normalise and ", normalised" or ""), 1e-5, 1e-6)
      model:save(dir .. "/saved")
      tap.is(rille.models.load(dir .. "/saved"):embed(ids, given):totable(), vectors:totable(), mode .. ": the saved folder has the same pooling")
    end
  end
  local function refuses(what, ...) tap.fails(function() rille.models.load(at) end, {at, ...}, what) end
  tap.write(at .. "/1_Pooling/config.json", '{"pooling_mode_cls_token": true, "pooling_mode_max_tokens": true}')
  refuses("two pooling modes are refused", "1_Pooling/config.json: expected one pooling mode, cls, mean or max, found")
  tap.write(at .. "/1_Pooling/config.json", '{"pooling_mode_lasttoken": true}')
  refuses("an unknown pooling mode is refused", "found pooling_mode_lasttoken")
  tap.write(at .. "/modules.json", MODULES:format("Dense", ""))
  refuses("an unknown module is refused", "modules.json: expected modules Transformer", "Dense")
  tap.write(at .. "/modules.json", "3")
  refuses("a number for modules.json is refused", "modules.json")
end)

tap.group("other files", function()
  local at, entry = dir .. "/old", named.bert
  families.write(entry, at)
  local ids, given = inputs(entry)
  local want, old = rille.models.load(at)(ids, given), {}
  for name, t in pairs(rille.load(at .. "/model.safetensors")) do
    old[name:gsub("LayerNorm.weight$", "LayerNorm.gamma"):gsub("LayerNorm.bias$", "LayerNorm.beta")] = t
  end
  old["bert.pooler.dense.weight"], old["cls.seq_relationship.weight"] = rille.ones{32, 32}, rille.ones{2, 32}
  rille.save(at .. "/model.safetensors", old)
  tap.is(rille.models.load(at)(ids, given):totable(), want:totable(), "old names of norms, and heads of pretraining, are accepted")
  families.write(named["bert base"], at)
  local small = rille.models.load(at, {quantize = "int8"})
  small:save(at)
  tap.is(rille.models.load(at):embed(ids, {pooling = "pooler"}):totable(), small:embed(ids, {pooling = "pooler"}):totable(),
    "int8 weights are saved and loaded")
end)

tap.group("other configs", function()
  local at, e = dir .. "/other", named["electra base"]
  families.write(e, at)
  local ids, given = inputs(e)
  local want, whole, words = rille.models.load(at)(ids, given):totable(), {}, families.words(e)
  for name, t in pairs(rille.load(at .. "/model.safetensors")) do whole["electra." .. name] = t end
  whole["discriminator_predictions.dense.weight"] = rille.ones{32, 32}
  rille.save(at .. "/model.safetensors", whole)
  words.architectures = {"ElectraForPreTraining"}
  families.write_words(words, at)
  tap.is(rille.models.load(at)(ids, given):totable(), want, "a discriminator of Electra is loaded without its head")
  words.hidden_act = nil
  families.write_words(words, at)
  tap.is(rille.models.load(at)(ids, given):totable(), want, "an encoder's activation is gelu by default, as in transformers")
  families.write(named.albert, at)
  words = families.words(named.albert)
  words.num_hidden_groups = 3
  families.write_words(words, at)
  tap.fails(function() rille.models.load(at) end, {"num_hidden_groups must divide num_hidden_layers = 2", "found 3 and 1"}, "groups that do not divide the layers")
end)

tap.group("arguments", function()
  local at = dir .. "/arguments"
  families.write(named.distilbert, at)
  local model, ids = rille.models.load(at), inputs(named.distilbert)
  tap.fails(function() model(ids, {mask = ids:slice(1, 0, 3)}) end, {"mask must be a tensor {2, 24}, the shape of ids, found {2, 3}"}, "a mask of another shape")
  tap.fails(function() model(ids, {types = ids}) end, {"the model has no token types"}, "types for a model without them")
  tap.fails(function() model:embed(ids, {pooling = "pooler"}) end, {"unknown pooling \"pooler\"; expected one of: cls, max, mean"}, "a pooler for a model without one")
  tap.fails(function() model:generate(ids) end, {"generate is not supported, because an encoder does not generate tokens"}, "generation")
end)
tap.done()
