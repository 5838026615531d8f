-- gpt2.lua - a training step of GPT-2 124M with AdamW, and text generation: time, and the limit of the machine.
--
--   rille bench/gpt2.lua [--row NAME] [--case CASE] [--steps 8] [--layers 12]      bench/gpt2.sh runs it beside the peers
--   rille bench/gpt2.lua --list
--
-- Prints lines "name, case, least, median, peak": milliseconds per step or id, and the peak memory of the process in
-- GB. If --row selects one row, this is the peak memory of that row. A case is batch x length and a dtype.
--
-- The limit is measured here and is the sum of two times. The first is the time of a step's products alone, each
-- repeated on the same memory (for attention only the unmasked half). The second is the time of AdamW's traffic at
-- the speed of memory: per parameter 3 reads, 3 writes, and a read of the gradient. The limit contains no softmax,
-- norms or loss.

local rille = require "rille"
local optim = rille.optim
local o = rille.args(arg, {steps = 8, layers = 12, row = "", case = "", list = false})
local VOCAB, WIDTH, HEADS = 50257, 768, 12

-- Returns the peak memory of this process in GB.
local function peak()
  for line in io.lines("/proc/self/status") do
    local kilobytes = line:match("^VmHWM:%s+(%d+)")
    if kilobytes then return kilobytes * 1024 / 1e9 end
  end
end

local function report(name, case, times)
  table.sort(times)
  print(("%s\t%s\t%.1f\t%.1f\t%.2f"):format(name, case, times[1] * 1e3, times[(#times + 1) // 2] * 1e3, peak()))
  io.stdout:flush()
end

local function timed(rounds, run)
  local times = {}
  for i = 0, rounds do
    local start = rille.clock()
    run()
    if i > 0 then times[i] = rille.clock() - start end -- the first step is slow, because it compiles
  end
  return times
end

-- ---- the training step ----

local function new(place)
  rille.manual_seed(0)
  return rille.models.gpt2.new{vocab = VOCAB, length = 1024, layers = o.layers, heads = HEADS, width = WIDTH, placement = place}
end

local function training(name, case, batch, length, how)
  local model = new(rille.placement("cpu", how.devices or {0}))
  local recipe = how.recipe or {}
  if recipe.stages then -- stages are cut by the estimated time of a batch
    recipe.blocks = {input = rille.randint(0, VOCAB, {batch // how.pieces, length}), micro_batches = how.pieces, schedule = how.schedule}
  end
  rille.parallel(model, recipe)
  local opt = optim.AdamW(model:parameters(), {lr = 1e-4, weight_decay = 0.01})
  local x = rille.randint(0, VOCAB, {batch, length}):to_global(rille.parallel.input(model))
  local y = rille.randint(0, VOCAB, {batch, length}):to_global(rille.parallel.labels(model))
  local function loss_of(a, b) return model(a):reshape{-1, VOCAB}:cross_entropy(b:reshape{-1}) end
  local step = rille.graph(function(a, b)
    local loss = how.bf16 and rille.autocast("bf16", loss_of, a, b) or loss_of(a, b)
    loss:backward(); opt:step(); opt:zero_grad()
    return loss
  end, {micro_batches = how.pieces or 1, schedule = how.schedule})
  report(name, case, timed(o.steps, function() step(x, y):item() end))
  step, model, opt = nil, nil, nil
  collectgarbage()
end

-- ---- the limit of the machine: lower bound of the times, measured on one device with all threads ----

local one = rille.placement("cpu", {0})

-- Returns the least time of a run, s. Runs at least ten times, for at least 0.1 s in all. The first runs load the
-- caches.
local function least(run)
  local best, total, n = math.huge, 0, 0
  run()
  while n < 10 or total < 0.1 do
    local t = timed(1, run)[1]
    best, total, n = math.min(best, t), total + t, n + 1
  end
  return best
end

-- Returns the time, s, of a product alone, with operands laid out as in a step. form: "nn": no operand is transposed;
-- "nt": b is, as weights are; "tn": a is, as for a weight's gradient. The step does not return the product, so every
-- run writes the same memory.
local function product(dtype, m, k, n, form, batch)
  local function operand(transposed, rows, cols)
    local size = transposed and {cols, rows} or {rows, cols}
    if batch then table.insert(size, 1, batch) end
    return rille.rand(size, {placement = one, sbp = "B", dtype = dtype})
  end
  local a, b = operand(form == "tn", m, k), operand(form == "nt", k, n)
  local run = rille.graph(function(p, q)
    return rille.matmul(form == "tn" and p:transpose(-2, -1) or p, form == "nt" and q:transpose(-2, -1) or q):slice(0, 0, 1)
  end)
  return least(function() run(a, b) end)
end

-- Returns the time, s, of the products of one layer's attention with all heads: two in forward and four in backward.
-- Only the unmasked half counts.
local function attention(dtype, batch, length)
  local d = WIDTH // HEADS
  local n = batch * HEADS
  return (2 * product(dtype, length, d, length, "nt", n) + 2 * product(dtype, length, length, d, "nn", n) +
    2 * product(dtype, length, length, d, "tn", n)) / 2
end

-- Returns the time, in seconds per float, of reading or writing memory. Times a copy and AdamW alone, and returns the
-- smaller result. AdamW may be faster than a copy: it writes in place, so a store need not load its cache line first.
local function memory()
  local n = 32 << 20
  local x = rille.ones({n}, {placement = one, sbp = "B"})
  local copy = rille.graph(function(v) return (v * 1):slice(0, 0, 1) end)
  local copied = least(function() copy(x) end) / (2 * n)
  x.requires_grad, x.grad = true, rille.zeros({n}, {placement = one, sbp = "B"})
  local opt = optim.AdamW({x}, {lr = 0})
  local update = rille.graph(function() opt:step() end)
  return math.min(copied, least(update) / (7 * n))
end

local function limit(name, case, batch, length, dtype)
  local tokens, d = batch * length, WIDTH
  local sum = o.layers * attention(dtype, batch, length)
  for _, p in ipairs{{3 * d, d, o.layers}, {d, d, o.layers}, {4 * d, d, o.layers}, {d, 4 * d, o.layers}, {VOCAB, d, 1}} do
    local out, into, times = table.unpack(p)
    sum = sum + times * (product(dtype, tokens, into, out, "nt") + product(dtype, tokens, out, into, "nn") +
      product(dtype, out, tokens, into, "tn"))
  end
  local parameters = o.layers * (12 * d * d + 13 * d) + (VOCAB + 1024) * d
  report(name, case, {sum + 7 * parameters * memory()})
end

-- ---- text generation ----

local function writing(name, case, how)
  local model = new(one)
  if how.quantize then require("rille.models.loading.quantize").round(model, "int8") end
  local times, last = {}, nil
  model:generate(rille.randint(0, VOCAB, {1, 32}), {max_new_tokens = 2 * o.steps + 3, temperature = 0, on_token = function()
    local now = rille.clock()
    if last then times[#times + 1] = now - last end
    last = now
  end})
  table.remove(times, 1) -- drops the first time, because it includes compilation
  report(name, case, times)
end

-- Prints the limit of text generation: the time per id to read all weights once.
local function reading(name, case)
  local bytes, x = 0, rille.ones({64 << 20}, {placement = one, sbp = "B"})
  for _, p in ipairs(new(one):parameters()) do bytes = bytes + 4 * p:numel() end
  local sum = rille.graph(function(v) return v:sum() end)
  report(name, case, {least(function() sum(x) end) / (256 << 20) * bytes})
end

-- ---- rows and cases ----

local two, stages = {0, 1}, {rille.placement("cpu", {0}), rille.placement("cpu", {1})}
local rows = {
  {limit, "limit: products, AdamW", "4x64", 4, 64, "f32"},
  {training, "Rille", "4x64", 4, 64, {}},
  {training, "Rille, dp 2", "4x64", 4, 64, {devices = two, recipe = {data = 0}}},
  {training, "Rille, tp 2", "4x64", 4, 64, {devices = two, recipe = {tensor = 0}}},
  {training, "Rille, zero 3 over 2", "4x64", 4, 64, {devices = two, recipe = {data = 0, zero = 3}}},
  {training, "Rille, 2 stages, 4 pieces", "4x64", 4, 64, {recipe = {stages = stages}, pieces = 4}},
  {training, "Rille, the same, zb-h1", "4x64", 4, 64, {recipe = {stages = stages}, pieces = 4, schedule = "zb-h1"}},
  {limit, "limit: products, AdamW", "4x64 bf16", 4, 64, "bf16"},
  {training, "Rille", "4x64 bf16", 4, 64, {bf16 = true}},
  {limit, "limit: products, AdamW", "4x256", 4, 256, "f32"},
  {training, "Rille", "4x256", 4, 256, {}},
  {limit, "limit: products, AdamW", "1x1024", 1, 1024, "f32"},
  {training, "Rille", "1x1024", 1, 1024, {}},
  {writing, "Rille", "an id", {}},
  {writing, "Rille, int8", "an id", {quantize = true}},
  {reading, "limit: weights are read once", "an id"},
}
for _, row in ipairs(rows) do
  local run, name, case = row[1], row[2], row[3]
  if o.list then
    print(name .. "\t" .. case)
  elseif (o.row == "" or o.row == name) and (o.case == "" or o.case == case) then
    run(name, case, table.unpack(row, 4))
  end
end
