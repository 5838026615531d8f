-- golden-towers.lua - tests that rille.models.load reads Hugging Face's models for images, sound, images with texts, and
-- encoder-decoders. Outputs, vectors, gradients and greedy ids must match t/golden/models/towers.lua, on one device and under
-- recipes, and a saved folder must have the same tensors.
local tap = dofile("t/lib/tap.lua")
local golden = dofile("t/golden/models/towers.lua")
local families = dofile("t/lib/families.lua")
local spread, summed = families.spread, families.summed

local dir = os.tmpname()
os.remove(dir)
os.execute("mkdir '" .. dir .. "'")

-- ---- inputs ----

local function numbers(name, ...)
  local n = 1
  for _, size in ipairs{...} do n = n * size end
  return rille.tensor(spread(name, n), {dtype = "f64"}):to("f32"):reshape{...}
end

-- Returns rows of ids by the formula of towers.py.
local function ids_of(name, length)
  local list, f32 = {}, numbers(name, golden.rows * length):totable()
  for i, v in ipairs(f32) do list[i] = math.min(golden.eos - 1, math.floor((v + 1) / 2 * (golden.vocab - 5) + 3)) end
  return rille.tensor(list, {dtype = "i64"}):reshape{golden.rows, length}
end

-- Returns two texts, the second padded, and their mask.
local function texts()
  local rows, mask = ids_of("ids", golden.length):totable(), {{}, {}}
  rows[1][golden.length], rows[2][golden.second] = golden.eos, golden.eos
  for i = 1, golden.length do
    mask[1][i], mask[2][i] = 1, i <= golden.second and 1 or 0
    if mask[2][i] == 0 then rows[2][i] = 0 end
  end
  return rille.tensor(rows, {dtype = "i64"}), rille.tensor(mask, {dtype = "i64"}):ne(0)
end

local calls = {} -- by model_type: function that returns inputs and options of an entry; other types have images

function calls.clip()
  local ids, mask = texts()
  return {ids, numbers("images", 3, 3, 16, 16)}, {mask = mask}
end
function calls.siglip() return {(texts()), numbers("images", 3, 3, 16, 16)}, {} end
function calls.clip_text_model()
  local ids, mask = texts()
  return {ids}, {mask = mask}
end
function calls.siglip_text_model() return {(texts())}, {} end
function calls.t5(words)
  local ids, mask = texts()
  return {ids, not words.architectures[1]:find "EncoderModel$" and ids_of("targets", golden.target) or nil}, {mask = mask}
end
calls.mt5, calls.umt5 = calls.t5, calls.t5
function calls.whisper() return {numbers("sound", golden.rows, golden.bins, golden.frames), ids_of("targets", golden.target)} end

-- Returns the inputs of an entry and its options, in a layout.
local function inputs(entry, where)
  local words = families.words(entry)
  local side = words.hidden_sizes and 32 or 16
  local images = function() return {numbers("images", golden.rows, words.num_channels, side, side)} end
  local list, given = (calls[words.model_type] or images)(words)
  for i, t in ipairs(where and list or {}) do list[i] = t:to_global(where) end
  if where and given and given.mask then given.mask = given.mask:to_global(where) end
  list[#list + 1] = given
  return list
end

local function vectors(model, list)
  if not model.embed_images then return model:embed(table.unpack(list)) end
  local images, ids = model:embed_images(list[2]), model:embed_texts(list[1], list[3])
  return rille.concat({images / images:square():sum{axis = -1, keepdim = true}:sqrt(), ids / ids:square():sum{axis = -1, keepdim = true}:sqrt()}, 0)
end

-- ---- comparisons ----

local function some(t)
  local last = t:slice(0, t.shape[1] - 1, t.shape[1]):reshape{-1}
  return last:slice(0, 0, math.min(6, last.shape[1])):totable()
end

-- Compares a model with an entry. where: layout of the inputs; nil: one device.
local function compare(entry, model, what, where)
  local list = inputs(entry, where)
  local out = model(table.unpack(list))
  tap.near(some(out), entry.out, what .. ": outputs", 1e-5, 2e-5)
  tap.near(summed(out, "all"):item(), entry.all, what .. ": all outputs", 1e-5, 2e-4)
  local loss = summed(out, "loss")
  if entry.pooled then
    local pooled = vectors(model, list)
    tap.near(some(pooled), entry.pooled, what .. ": vectors", 1e-5, 1e-5)
    tap.near(summed(pooled, "all"):item(), entry.all_pooled, what .. ": all vectors", 1e-5, 1e-4)
    loss = loss + summed(pooled, "pooled")
  end
  loss:backward()
  local sum, absolute = families.gradient(model)
  tap.near({sum / entry.absolute, absolute / entry.absolute}, {entry.gradient / entry.absolute, 1}, what .. ": gradients", 0, 3e-5)
  if entry.greedy then
    local rows = model:generate(list[1], {max_new_tokens = golden.new, temperature = 0, mask = list[3] and list[3].mask})
    for r, row in ipairs(rows) do rows[r] = table.move(row, #row - golden.new + 1, #row, 1, {}) end
    local want = tap.list(entry.greedy, function(row) return table.move(row, #row - golden.new + 1, #row, 1, {}) end)
    tap.is(rows, want, what .. ": greedy ids")
  end
end

local all = os.getenv "RILLE_LONG" -- RILLE_LONG=1 tries every entry with every recipe and in every file format
local P2 = rille.placement("cpu", {0, 1})
local P22 = rille.placement("cpu", {{0, 1}, {2, 3}})
local recipes = {{"data", P2, {data = 0}}, {"data, zero 3", P2, {data = 0, zero = 3}}, {"tensor", P2, {tensor = 0}},
  {"data, tensor", P22, {data = 0, tensor = 1}}}
local P4 = rille.placement("cpu", {0, 1, 2, 3})
local of_data = {{"data", P2, {data = 0}}, {"data, zero 3", P2, {data = 0, zero = 3}}, {"data, 4 devices", P4, {data = 0, zero = 1}}}

for number, entry in ipairs(golden) do
  if tap.share() then tap.group(entry.name, function()
    local at = dir .. "/" .. entry.name:gsub(" ", "-")
    local count, digest = families.write(entry, at)
    tap.is({count, digest}, {entry.tensors, entry.digest}, entry.name .. ": names and shapes of tensors")
    local model = rille.models.load(at):eval()
    compare(entry, model, entry.name)
    model:save(dir .. "/saved")
    tap.is(families.same_tensors(at, dir .. "/saved"), true, entry.name .. ": the saved folder has the same tensors")
    local list = model.config.first and of_data or recipes -- ResNet has no layers that tensor recipes could split
    for k, r in ipairs(list) do
      if k == number % #list + 1 or all then
        local laid = rille.models.load(at, {placement = r[2], parallel = r[3]}):eval()
        compare(entry, laid, entry.name .. ", " .. r[1], rille.parallel.input(laid))
      end
    end
    os.execute(("rm -rf '%s' '%s/saved'"):format(at, dir))
  end) end
end

-- ---- other files ----

for number, entry in ipairs(golden) do
  if tap.share() and (all or number % 2 == 0) then tap.group(entry.name .. ", other files", function()
    local at, saved = dir .. "/other", dir .. "/saved"
    families.write(entry, at)
    local model = rille.models.load(at):eval()
    local want, dtype = model(table.unpack(inputs(entry))), number % 4 == 0 and "bf16" or "f16"
    local function far(y) return ((y:to("f32") - want):abs():max() / want:abs():max()):item() end
    local small = rille.models.load(at, {dtype = dtype}):eval()
    tap.near(far(small(table.unpack(inputs(entry)))), 0, entry.name .. ": outputs in " .. dtype, 0, dtype == "bf16" and 0.1 or 0.015)
    model:save(saved, {max_shard_size = "20KB"})
    tap.is(rille.models.load(saved):eval()(table.unpack(inputs(entry))):totable(), want:totable(), entry.name .. ": sharded files")
    os.execute(("rm -rf '%s'"):format(saved))
    local int8 = rille.models.load(at, {quantize = "int8"}):eval()
    local y = int8(table.unpack(inputs(entry)))
    tap.near(far(y), 0, entry.name .. ": outputs with int8 weights", 0, 0.1)
    int8:save(saved)
    tap.is(rille.models.load(saved):eval()(table.unpack(inputs(entry))):totable(), y:totable(), entry.name .. ": int8 weights are saved and loaded")
    os.execute(("rm -rf '%s' '%s'"):format(at, saved))
  end) end
end

-- ---- training ----

-- Returns two losses of an entry's outputs: before and after a step of SGD.
local function losses(entry, at, how)
  local model = rille.models.load(at, how)
  local list = inputs(entry, how and rille.parallel.input(model))
  local opt = rille.optim.SGD(model:parameters(), {lr = 1e-3})
  local step = tap.training(opt, function(...) return summed(model(...), "loss") * (1 / entry.absolute) end)
  local t = {step(table.unpack(list)):item(), step(table.unpack(list)):item()}
  return t, model
end

for number, entry in ipairs(golden) do
  if tap.share() and (all or number % 2 == 1) then tap.group(entry.name .. ", a step", function()
    local at = dir .. "/step"
    families.write(entry, at)
    local alone, model = losses(entry, at)
    tap.ok(alone[1] ~= alone[2], entry.name .. ": a step changes the loss")
    local list = model.config.first and of_data or recipes
    local r = list[number % #list + 1]
    tap.near((losses(entry, at, {placement = r[2], parallel = r[3]})), alone, ("%s, %s: the losses of two steps"):format(entry.name, r[1]), 1e-4, 1e-5)
    model:save(dir .. "/tuned")
    local again = rille.models.load(dir .. "/tuned"):eval()
    tap.is(again(table.unpack(inputs(entry))):totable(), model:eval()(table.unpack(inputs(entry))):totable(), entry.name .. ": the tuned model is saved and loaded")
    os.execute(("rm -rf '%s' '%s/tuned'"):format(at, dir))
  end) end
end

tap.group("SigLIP without a pooling layer", function()
  local at = dir .. "/headless"
  for _, entry in ipairs(golden) do
    local words = families.words(entry)
    if entry.name == "siglip vision" then
      families.write(entry, at)
      local images = inputs(entry)[1]
      local want = rille.models.load(at):eval()(images):totable()
      families.write({name = entry.name, config = entry.config:gsub('"vision_use_head": true', '"vision_use_head": false'), has = {}}, at)
      local model = rille.models.load(at):eval()
      tap.is(model(images):totable(), want, "the features of patches are those of the model with the layer")
      tap.fails(function() model:embed(images) end, {"embed: the model has no pooling layer (vision_use_head is false); call m(images)"}, "an image has no vector")
      model:save(dir .. "/saved")
      tap.is(families.same_tensors(at, dir .. "/saved"), true, "a saved folder has the same tensors")
    elseif entry.name == "siglip" then
      families.write(entry, at)
      words.vision_config.vision_use_head = false
      families.write_words(words, at)
      tap.fails(function() rille.models.load(at) end, {"vision_config.vision_use_head must be true, because images have no vectors otherwise; found false"}, "a model of texts and images needs the layer")
    end
    os.execute(("rm -rf '%s' '%s/saved'"):format(at, dir))
  end
end)

-- ---- sound ----

tap.group("log-mel spectrograms", function()
  local log_mel, noise, sound = require "rille.models.towers.mel", spread("noise", 4800), {}
  for i, v in ipairs(noise) do sound[i] = 0.5 * math.sin(2 * math.pi * 440 * (i - 1) / 16000) + 0.01 * v end
  sound = rille.tensor(sound, {dtype = "f64"}):to("f32")
  for _, entry in ipairs(golden.mel) do
    local y = log_mel("test", entry.samples > 0 and sound or rille.zeros{1}, entry.bins, 100)
    local column, want = {}, {}
    for i = 0, 7 do column[i + 1] = y:slice(1, i * (entry.bins // 8), i * (entry.bins // 8) + 1):slice(2, 5, 6):item() end
    local what = ("%d bins, %d samples"):format(entry.bins, entry.samples)
    tap.near(column, entry.some, what .. ": a column", 0, 2e-6)
    tap.near(summed(y, "mel"):item(), entry.all, what .. ": all values", 1e-6, 1e-4)
  end
  local two = log_mel("test", rille.stack({sound, sound * 0}, 0), 80, 100)
  tap.is(two:slice(0, 0, 1):totable(), log_mel("test", sound, 80, 100):totable(), "each sound of a batch has a spectrogram of its own")
  tap.is(two.shape, {2, 80, 100}, "its shape is that of the model")
end)

-- ---- generation ----

-- Returns the likeliest ids. Computes each id by a forward pass over all earlier ids, without a cache.
local function slowly(model, input, prompt, n)
  local row = table.move(prompt, 1, #prompt, 1, {})
  for _ = 1, n do
    local y = model(input, rille.tensor({row}, {dtype = "i64"}))
    row[#row + 1] = y:slice(1, #row - 1, #row):argmax{axis = -1}:item()
  end
  return row
end

tap.group("generation", function()
  local at, P = dir .. "/text", {3, 9, 4}
  for _, entry in ipairs(golden) do
    if entry.name == "t5" or entry.name == "whisper" then
      families.write(entry, at)
      local model, sound = rille.models.load(at), numbers("sound", golden.rows, golden.bins, golden.frames)
      local texts = {{5, 6, 7, 8, 9, 11}, {9, 10}}
      local both = entry.name == "t5" and texts or sound
      local rows = model:generate(both, {prompt = P, max_new_tokens = 5, temperature = 0, bad_words = {}})
      for r = 1, 2 do
        local input = entry.name == "t5" and rille.tensor({texts[r]}, {dtype = "i64"}) or sound:slice(0, r - 1, r)
        tap.is(rows[r], slowly(model, input, P, 5), ("%s: text %d has the likeliest ids, also beside others"):format(entry.name, r))
      end
      tap.is(model:generate(both, {prompt = P, max_new_tokens = 5, beams = 1, bad_words = {}}), rows, entry.name .. ": one beam is greedy")
      local long = tap.list(20, function(i) return 3 + i end)
      local pair = model:generate(both, {prompt = long, max_new_tokens = 2, n = 2, temperature = 0})
      tap.is({#pair, pair[1], pair[3]}, {4, pair[2], pair[4]}, entry.name .. ": n texts for each input")
      tap.fails(function() model:generate(both, {draft = model}) end, {"the option draft is not supported"}, entry.name .. ": a draft")
      tap.fails(function() model:scheduler() end, {"has no scheduler, because each text has its own inputs"}, entry.name .. ": a scheduler")
      os.execute(("rm -rf '%s'"):format(at))
    end
  end
end)

tap.group("arguments", function()
  local at = dir .. "/arguments"
  local function model_of(name)
    for _, entry in ipairs(golden) do
      if entry.name == name then families.write(entry, at) end
    end
    return rille.models.load(at)
  end
  local vit = model_of "vit"
  tap.fails(function() vit(rille.zeros{1, 3, 16, 20}) end, {"images must be a tensor (batch, 3, 16, 16), found {1, 3, 16, 20}"}, "images of another size")
  tap.fails(function() vit:generate{{1}} end, {"generate is not supported, because an encoder does not generate tokens"}, "text of a vision model")
  local dino = model_of "dinov2"
  tap.fails(function() dino(rille.zeros{1, 3, 16, 18}) end, {"(batch, 3, height, width), of patches of 4, found {1, 3, 16, 18}"}, "images of half a patch")
  local encoder = model_of "t5 encoder"
  tap.fails(function() encoder:generate{{1}} end, {"generate is not supported, because the model has no decoder"}, "text of an encoder")
  local clip, ids = model_of "clip", rille.tensor({{1, 2, 60}}, {dtype = "i64"})
  tap.fails(function() clip:embed_texts(ids, {mask = ids:slice(1, 0, 2)}) end, {"mask must be a tensor {1, 3}, the shape of ids, found {1, 2}"}, "a mask of another shape")
  local whisper = model_of "whisper"
  tap.fails(function() whisper(rille.zeros{1, 8, 3}, ids) end, {"sound must be a spectrogram of m:log_mel, (batch, 8, 30), found {1, 8, 3}"}, "sound of another length")
  tap.fails(function() whisper:encode(rille.zeros{1, 8, 30}, {mask = ids}) end, {"options are not supported for sound, found mask"}, "a mask for sound")
  tap.fails(function() whisper:log_mel{1, 2} end, {"sound must be a tensor of floats (batch, samples) or (samples), at 16000 Hz, found a table"}, "sound as a list")
  local function write(text)
    local file <close> = assert(io.open(at .. "/generation_config.json", "w"))
    file:write(text)
  end
  write '{"suppress_tokens": [16, 27, 11, 99, -1, "x"], "begin_suppress_tokens": null}'
  local other = rille.models.load(at)
  tap.is({other.config.suppressed, other.config.suppressed_first}, {{16, 27, 11}, {}}, "generation_config.json says which ids are suppressed")
  write "3"
  tap.fails(function() rille.models.load(at) end, {at .. "/generation_config.json: expected JSON with an object or a list, found 3"}, "a number for generation_config.json")
  os.remove(at .. "/generation_config.json")
  local resnet = model_of "resnet"
  tap.fails(function() resnet(rille.zeros{1, 1, 8, 8}) end, {"images must be a tensor (batch, 3, height, width), found {1, 1, 8, 8}"}, "images of one channel")
  os.execute(("rm -rf '%s'"):format(at))
end)
os.execute(("rm -rf '%s'"):format(dir))
tap.done()
