-- golden-towers.lua - tests that rille.models.load reads Hugging Face's models for images, sound, images with texts, and
-- encoder-decoders. Outputs, vectors, gradients and greedy ids must match t/golden/towers.lua, on one device and under
-- recipes, and a saved folder must have the same tensors.
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"
local golden = dofile("t/golden/towers.lua")
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

local calls = {} -- model_type -> function that returns inputs and options of an entry; others: images

function calls.clip()
  local ids, mask = texts()
  return {ids, numbers("images", 3, 3, 16, 16)}, {mask = mask}
end
function calls.siglip() return {(texts()), numbers("images", 3, 3, 16, 16)}, {} end
function calls.t5()
  local ids, mask = texts()
  return {ids, ids_of("targets", golden.target)}, {mask = mask}
end
calls.mt5, calls.umt5 = calls.t5, calls.t5
function calls.whisper() return {numbers("sound", golden.rows, golden.bins, golden.frames), ids_of("targets", golden.target)} end

-- Returns the inputs of an entry and its options, in a layout.
local function inputs(entry, where)
  local words = families.words(entry)
  local side = words.hidden_sizes and 32 or 16
  local images = function() return {numbers("images", golden.rows, words.num_channels, side, side)} end
  local list, given = (calls[words.model_type] or images)()
  for i, t in ipairs(where and list or {}) do list[i] = t:to_global(where) end
  if where and given and given.mask then given.mask = given.mask:to_global(where) end
  list[#list + 1] = given
  return list
end

-- Returns the vectors of an entry's images and texts.
local function vectors(model, list)
  if not model.embed_images then return model:embed(list[1]) end
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
    local want = {}
    for r, row in ipairs(entry.greedy) do want[r] = table.move(row, #row - golden.new + 1, #row, 1, {}) end
    tap.is(rows, want, what .. ": greedy ids")
  end
end

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
    local list = model.config.first and of_data or recipes -- ResNet has no layers for tensor recipes
    for k, r in ipairs(list) do
      if k == number % #list + 1 or os.getenv "RILLE_LONG" then
        local laid = rille.models.load(at, {placement = r[2], parallel = r[3]}):eval()
        compare(entry, laid, entry.name .. ", " .. r[1], rille.parallel.input(laid))
      end
    end
    os.execute(("rm -rf '%s' '%s/saved'"):format(at, dir))
  end) end
end
os.execute(("rm -rf '%s'"):format(dir))
tap.done()
