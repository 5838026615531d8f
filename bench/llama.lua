-- llama.lua - times a training step and a forward pass of a small Llama, or of GPT-2 with a mixture of experts, and
-- their products alone.
--
--   RILLE_THREADS=1 rille -d cpu:1 bench/llama.lua [--model llama|moe] [--bf16] [--batch 4] [--length 128] [--layers 4]
--     [--width 512] [--steps 10]                                            bench/llama.sh runs it beside PyTorch
--
-- Prints lines "name, what, least, median": milliseconds of processor time. The limit of a forward pass is the time
-- of its matrix products alone, each repeated on the same memory. An expert multiplies only the rows that have chosen
-- it. The limit of a step is three times that of a forward pass: forward, input gradients and weight gradients. The
-- limits contain no attention, norms, loss or update.

local rille = require "rille"
local o = rille.args(arg, {model = "llama", bf16 = false, batch = 4, length = 128, layers = 4, width = 512, steps = 10})
local HEADS <const>, KV_HEADS <const>, VOCAB <const>, EXPERTS <const>, TOP_K <const> = 8, 4, 8192, 8, 2
rille.manual_seed(1)

local timed, line = dofile("bench/processor.lua")(o.steps)
local function report(name, ...) line(("%s: %s%s"):format(o.model, name, o.bf16 and ", bf16" or ""), ...) end

-- ---- the training step and the forward pass ----

local options = {vocab = VOCAB, length = o.length, layers = o.layers, heads = HEADS, width = o.width}
if o.model == "llama" then
  options.kv_heads = KV_HEADS
else
  options.experts, options.top_k = EXPERTS, TOP_K
end
local model = rille.models[o.model].new(options)
local opt = rille.optim.AdamW(model:parameters(), {lr = 1e-4, weight_decay = 0.01})
local x, y = rille.randint(0, VOCAB, {o.batch, o.length}), rille.randint(0, VOCAB, {o.batch, o.length})
local function cast(f, ...)
  if o.bf16 then return rille.autocast("bf16", f, ...) end
  return f(...)
end
local step = rille.graph(function(x, y)
  local loss = cast(function(x, y) return model(x):reshape{-1, VOCAB}:cross_entropy(y:reshape{-1}) end, x, y)
  loss:backward()
  opt:step(); opt:zero_grad()
  return loss
end)
report("Rille", "training", timed(function() step(x, y):item() end))
local pass = rille.graph(function(x) return rille.no_grad(cast, model, x):sum() end)
report("Rille", "inference", timed(function() pass(x):item() end))

-- ---- the products of the step ----

local all = 0
-- Adds to `all` the time of `times` products of a matrix (rows, k) by a matrix (k, n).
local function add(times, rows, k, n)
  local dtype = o.bf16 and "bf16" or "f32"
  local a, b = rille.randn({rows, k}, {dtype = dtype}), rille.randn({k, n}, {dtype = dtype})
  local product = rille.graph(function(a, b) return rille.matmul(a, b) end)
  local one = timed(function() local c <close> = product(a, b) end)
  all = all + times * one
end
local rows, d = o.batch * o.length, o.width
if o.model == "llama" then
  local narrow, hidden = d * KV_HEADS // HEADS, model.config.hidden
  add(2 * o.layers, rows, d, d)
  add(2 * o.layers, rows, d, narrow)
  add(2 * o.layers, rows, d, hidden)
  add(o.layers, rows, hidden, d)
else
  local hidden = model.config.hidden
  add(4 * o.layers, rows, d, d)
  add(o.layers * EXPERTS, rows * TOP_K // EXPERTS, d, hidden)
  add(o.layers * EXPERTS, rows * TOP_K // EXPERTS, hidden, d)
end
add(1, rows, d, VOCAB)
report("limit: products", "training", 3 * all, 3 * all)
report("limit: products", "inference", all, all)
