-- gpu.lua - speed of one GPU: products, convolutions, attention, norms, AdamW, and a training step of GPT-2 in bf16.
--
--   rille -d cuda:0 bench/gpu.lua [--rounds 10] [--peak 989] [--small] [--kind cuda]      bench/gpu.sh runs it beside PyTorch
--
-- Prints lines "case, who, least, median, rate, unit". Times are in milliseconds; the rate is computed from the least
-- time. For steps that run without waits between them, two rounds are timed; "least" and "median" are then the
-- smaller and the larger mean of the two rounds.
--
-- The MFU of a training step is its operations per second, divided by --peak, the card's nominal dense bf16 TFLOP/s.
-- The operations are 6 per parameter and token, and 12 x layers x width x length per token for attention, masked or
-- not (Chowdhery et al. 2022, appendix B). Without --peak no MFU is printed. --small: small sizes, for a cpu or
-- another device that stands in for a GPU.

local rille = require "rille"
local o = rille.args(arg, {rounds = 10, peak = 0, small = false, kind = "cuda", only = ""})
local place = rille.placement(o.kind, {0})
local small = o.small

local function wanted(case) return o.only == "" or case:find(o.only, 1, true) end

-- Waits for the end of a run, by reading one element of its result.
local function wait(value) value:reshape{-1}:slice(0, 0, 1):item() end

local function tell(case, least, median, work, unit)
  print(("%s\trille\t%.3f\t%.3f\t%.1f\t%s"):format(case, least * 1e3, median * 1e3, work / least, unit))
  io.stdout:flush()
end

-- Times runs one by one, and waits for the result of each. Prints their least and median.
local function report(case, work, unit, run)
  local times = {}
  for i = 0, o.rounds do
    local start = rille.clock()
    wait(run())
    if i > 0 then times[i] = rille.clock() - start end -- the first run compiles
  end
  table.sort(times)
  tell(case, times[1], times[(#times + 1) // 2], work, unit)
end

-- Times runs without waits between them: queues all runs of a round, and waits at its end. Prints the mean time per
-- run of each of two rounds.
local function report_all(case, work, unit, run)
  local means = {}
  for i = 1, 2 do
    wait(run())
    local start, last = rille.clock(), nil
    for _ = 1, o.rounds do last = run() end
    wait(last)
    means[i] = (rille.clock() - start) / o.rounds
  end
  tell(case, math.min(means[1], means[2]), math.max(means[1], means[2]), work, unit)
end

local function random(shape, dtype) return rille.randn(shape, {placement = place}):to(dtype) end


local function products()
  for _, dtype in ipairs {"f32", "bf16"} do
    for _, n in ipairs(small and {64} or {512, 1024, 2048, 4096, 8192}) do
      local case = ("product %d %s"):format(n, dtype)
      local x, w = random({n, n}, dtype), random({n, n}, dtype)
      local step = rille.graph(function(a, b) return a:matmul(b) end)
      if wanted(case) then report(case, 2 * n ^ 3 / 1e12, "TFLOP/s", function() return step(x, w) end) end
    end
  end
end

-- Times a convolution and its gradients with respect to image and kernel, with the sizes of a middle layer of a
-- ResNet.
local function convolutions()
  local batch, c, size = small and 2 or 64, small and 8 or 128, small and 8 or 28
  for _, dtype in ipairs {"f32", "bf16"} do
    local x = random({batch, c, size, size}, dtype):detach():requires_grad_(true)
    local w = random({c, c, 3, 3}, dtype):detach():requires_grad_(true)
    local g = random({batch, c, size, size}, dtype)
    -- Returns the gradient of operand `of`. g: the gradient of the result.
    local function slope(of)
      return rille.grad((x:conv2d(w, {padding = 1}) * g):sum(), {of})
    end
    local methods = {
      {"conv2d", function() return x:conv2d(w, {padding = 1}) end},
      {"conv2d_grad_x", function() return slope(x) end},
      {"conv2d_grad_w", function() return slope(w) end},
    }
    for _, method in ipairs(methods) do
      local case = ("%s %d x %d x %d x %d, 3 x 3 %s"):format(method[1], batch, c, size, size, dtype)
      if wanted(case) then report(case, 2 * batch * size ^ 2 * c ^ 2 * 9 / 1e12, "TFLOP/s", rille.graph(method[2])) end
    end
  end
end

local function attention()
  for _, t in ipairs(small and {32} or {1024, 4096}) do
    local b, h, d = small and 1 or 8, small and 2 or 12, 64
    local case = ("attention %d x %d x %d x %d bf16"):format(b, h, t, d)
    local q, k, v = random({b, h, t, d}, "bf16"), random({b, h, t, d}, "bf16"), random({b, h, t, d}, "bf16")
    local step = rille.graph(function(x, y, z) return rille.scaled_dot_product_attention(x, y, z, {is_causal = true}) end)
    -- For causal attention, only half of the scores count as work.
    if wanted(case) then report(case, 2 * b * h * t * t * d / 1e12, "TFLOP/s", function() return step(q, k, v) end) end
  end
end

local function norms()
  local rows, width = small and 64 or 16384, small and 96 or 1600
  local case = ("layer_norm %d x %d bf16"):format(rows, width)
  local x = random({rows, width}, "bf16")
  local norm = rille.nn.LayerNorm(width):to("bf16"):to_global{placement = place, sbp = "B"}
  local step = rille.graph(function(v) return norm(v) end)
  if wanted(case) then report(case, 4 * rows * width / 1e9, "GB/s", function() return step(x) end) end
end

-- ---- GPT-2 ----

local models = {{"124M", 12, 12, 768, 8}, {"1558M", 48, 25, 1600, 2}}

local function training(name, layers, heads, width, batch)
  local vocab, length = small and 128 or 50304, small and 16 or 1024
  if small then layers, heads, width, batch = 2, 2, 32, 2 end
  local case = ("GPT-2 %s step %d x %d bf16"):format(name, batch, length)
  if not wanted(case) then return end
  rille.manual_seed(0)
  local model = rille.models.gpt2.new{
    vocab = vocab, length = length, layers = layers, heads = heads, width = width, placement = place,
  }
  local opt = rille.optim.AdamW(model:parameters(), {lr = 1e-4, weight_decay = 0.01})
  local n = 0
  for _, p in ipairs(model:parameters()) do n = n + p:numel() end
  local x = rille.randint(0, vocab, {batch, length}):to_global{placement = place, sbp = "B"}
  local y = rille.randint(0, vocab, {batch, length}):to_global{placement = place, sbp = "B"}
  local function loss_of(a, b) return model(a):reshape{-1, vocab}:cross_entropy(b:reshape{-1}) end
  local step = rille.graph(function(a, b)
    local loss = rille.autocast("bf16", loss_of, a, b)
    loss:backward(); opt:step(); opt:zero_grad()
    return loss
  end)
  local tokens = batch * length
  report(case, tokens, "tokens/s", function() return step(x, y) end)
  report_all(case .. ", not waited for", tokens, "tokens/s", function() return step(x, y) end)
  if o.peak > 0 then
    local work = tokens * (6 * n + 12 * layers * width * length)
    report(case .. ", MFU", work / (o.peak * 1e10), "%", function() return step(x, y) end)
  end
end

-- Times AdamW. The gradients are those of the sum of all parameters, so each is 1. For the rate, AdamW reads 4 and
-- writes 3 f32 numbers per parameter.
local function updates()
  local n, count = small and 4096 or 8 << 20, small and 2 or 16
  local case = ("AdamW of %d x %d f32"):format(count, n)
  if not wanted(case) then return end
  local list = {}
  for i = 1, count do list[i] = rille.randn({n}, {placement = place}):requires_grad_(true) end
  local opt = rille.optim.AdamW(list, {lr = 1e-3})
  local step = rille.graph(function()
    local sum = 0
    for _, p in ipairs(list) do sum = sum + p:sum() end
    sum:backward(); opt:step(); opt:zero_grad()
    return sum
  end)
  report(case, 7 * 4 * count * n / 1e9, "GB/s", function() return step() end)
end

products()
convolutions()
attention()
norms()
updates()
for _, m in ipairs(models) do training(table.unpack(m)) end
