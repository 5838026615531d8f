-- generate.lua - speed of text generation with GPT-2 124M: Rille's part of bench/generate.sh.
--
--   rille -d cpu:1 bench/generate.lua [--what all] [--layers 12] [--ids 64] [--wall] [--files FOLDER]
--
-- --files: a folder with q8_0.gguf and q4_k.gguf, whose weights stay in quantised blocks. Prints two lines per row.
-- "row, seconds per id, bytes of weights per id": the time is the least of --ids. "first, row, seconds, seconds": the
-- times until the first id of a text, with compilation and without. Seconds are processor time of one thread; with
-- --wall, wall-clock time.

local rille = require "rille"
local o = rille.args(arg, {what = "all", layers = 12, ids = 64, wall = false, files = ""})
local clock = o.wall and rille.clock or os.clock
local VOCAB, WIDTH, HEADS = 50257, 768, 12
rille.manual_seed(1)

local prompt = {}
for i = 1, 32 do prompt[i] = i end

-- Returns the seconds until the first id, and the least seconds between two ids.
local function write(model, how)
  local start, last, least = clock(), nil, math.huge
  local first
  local function reported()
    local now = clock()
    if last then least = math.min(least, now - last) end
    first, last = first or now - start, now
  end
  model:generate({prompt}, {max_new_tokens = o.ids, temperature = how.temperature, top_k = how.top_k, top_p = how.top_p, seed = 1,
    on_token = reported})
  return first, least
end

-- Returns the bytes of weights read per id. Omits embedding tables, because only one row of them is read. A table
-- that the head shares also occurs under the head's name, and counts there.
local function bytes_of(model)
  local bytes, sizes = 0, {f32 = 4, bf16 = 2, u8 = 1}
  for _, found in ipairs(model:named_tensors()) do
    local t = found.tensor
    if not found.name:find("^w[tp]e") and not found.name:find("^embed") and not found.name:find("^positions") then bytes = bytes + t:numel() * sizes[t.dtype] end
  end
  return bytes
end

-- Measures and prints a row. make: a function that returns the model.
local function row(name, make, how)
  if o.what ~= "all" and not name:find(o.what, 1, true) then return end
  local model = make():eval()
  local first = write(model, how)
  local second, least = write(model, how)
  for _ = 1, 2 do least = math.min(least, (select(2, write(model, how)))) end
  print(("%s\t%.6f\t%d"):format(name, least, bytes_of(model)))
  print(("first\t%s\t%.3f\t%.3f"):format(name, first, second))
  io.stdout:flush()
end

-- Returns a function that creates a model with random weights. quantize: name of a method of lua/models/loading/quantize.lua;
-- nil: the weights are not quantised.
local function new(dtype, quantize)
  return function()
    local model = rille.models.gpt2.new{vocab = VOCAB, length = 1024, layers = o.layers, heads = HEADS, width = WIDTH, dtype = dtype}
    return quantize and require("rille.models.loading.quantize").round(model, quantize) or model
  end
end

-- Returns a function that loads a model from a file, and keeps the file's quantised blocks.
local function kept(name)
  return function() return rille.models.load(o.files .. "/" .. name, {quantize = "keep"}) end
end

row("Rille, f32", new"f32", {temperature = 0})
row("Rille, f32, top_k 40", new"f32", {temperature = 0.8, top_k = 40})
row("Rille, f32, top_p 0.9", new"f32", {temperature = 0.8, top_p = 0.9})
row("Rille, bf16", new"bf16", {temperature = 0})
row("Rille, int8", new("f32", "int8"), {temperature = 0})
row("Rille, int4", new("f32", "int4"), {temperature = 0})
if o.files ~= "" then
  row("Rille, q8_0", kept"q8_0.gguf", {temperature = 0})
  row("Rille, q4_k", kept"q4_k.gguf", {temperature = 0})
end
