-- clip.lua - time of clip_grad_norm on the gradients of GPT-2 124M.
--
--   RILLE_THREADS=2 rille -d cpu:1 bench/clip.lua [--layers 12] [--rounds 9] [--memory $(build/release/bench/memory 2)]
--
-- Part 1 times clipping alone, eagerly and as a compiled step. It is timed with a bound that the norm exceeds ("cut")
-- and with a bound that the norm does not exceed. Columns: time of the first call; least time of --rounds further
-- calls (eager: without the time of computing gradients). The last row is the peak bytes without the parameters. The
-- limit is the time of reading all gradients at --memory GB/s, once and three times; clipping reads gradients twice
-- and writes them once.
--
-- Part 2 times a training step with AdamW, with and without clipping, in turns. Part 3 prints the time of the acts
-- that sum the squares and compute the scaling factor. It also prints how much longer the updates take with clipping,
-- because the gradients have left the caches.

local rille = require "rille"
local o = rille.args(arg, {layers = 12, rounds = 9, memory = 0.0})
local clip, clock = rille.optim.clip_grad_norm, rille.clock

local VOCAB = 50257
local model = rille.models.gpt2.new{vocab = VOCAB, length = 1024, layers = o.layers, heads = 12, width = 768}
local params = model:parameters()
local count = 0
for _, p in ipairs(params) do
  p.grad = rille.full(p.shape, 1e-3)
  tostring(p.grad)
  count = count + p:numel()
end
collectgarbage()

local function line(what, first, least)
  print(("%-44s %10s %8.1f"):format(what, first and ("%.1f"):format(1e3 * first) or "", 1e3 * least))
  io.stdout:flush()
end

-- Returns the time of the first call of fn, and the least time of later calls, s. beside: a function that is timed
-- after each call; its time is subtracted. nil: none.
local function times(fn, beside)
  local first, least
  for i = 0, o.rounds do
    collectgarbage() -- collects garbage outside the timed region
    local start = clock()
    fn()
    local took = clock() - start
    if beside then
      start = clock()
      beside()
      took = took - (clock() - start)
    end
    if i == 0 then first = took else least = math.min(least or took, took) end
  end
  return first, least
end

-- Computes the gradients by converting each to text, which computes the whole tensor but shows only a few elements.
local function compute_grads()
  for _, p in ipairs(params) do
    local g <close> = p.grad
    tostring(g)
  end
end

local function compiled(max)
  local step = rille.graph(function() return clip(params, max) end)
  return function() step():item() end
end
local function eager(max)
  return function()
    clip(params, max):item()
    compute_grads()
  end
end

-- Makes a training step. cut: true if the step clips the gradients.
local function step_with(cut)
  local opt = rille.optim.AdamW(params, {lr = 1e-6})
  return rille.graph(function(x, y)
    local loss = model(x):reshape{-1, VOCAB}:cross_entropy(y:reshape{-1})
    loss:backward()
    if cut then clip(params, 1e-3) end
    opt:step()
    opt:zero_grad()
    return loss
  end)
end

-- Returns the times, s, of two groups of acts in a traced step. The first group sums squares and computes the scaling
-- factor; the second updates the parameters.
local function acts_of(step, file)
  local norm, update = 0, 0
  step:trace(file)
  local f <close> = assert(io.open(file))
  for name, us in f:read("a"):gmatch('"name":"([^"]+)"[^{}]*"dur":([%d.]+)') do
    if name:find("^adamw") then
      update = update + 1e-6 * us
    elseif name:find("^square_sum") or name:find("^sqrt") or name:find("^add%+add%+add") then
      norm = norm + 1e-6 * us
    end
  end
  return norm, update
end

print(("%d parameters, gradients of %.0f MB; milliseconds%18s %8s"):format(count, 4e-6 * count, "first", "least"))
if o.memory > 0 then
  line("reading all once", nil, 4e-9 * count / o.memory)
  line("three times", nil, 12e-9 * count / o.memory)
end
-- Bounds for clipping. The norm exceeds LITTLE in every call, and never exceeds MUCH.
local LITTLE, MUCH = 0, 1e9
line("compiled, within the bound", times(compiled(MUCH)))
line("compiled, cut", times(compiled(LITTLE)))
line("eager, cut", times(eager(LITTLE), compute_grads))
line("eager, within the bound", times(eager(MUCH), compute_grads))
print(("%-44s %19.0f"):format("MB at most", 1e-6 * rille.devices()[1].peak_bytes - 4e-6 * count))
for _, p in ipairs(params) do p.grad = nil end

local steps = {step_with(true), step_with(false)}
local x, y = rille.randint(0, VOCAB, {4, 64}), rille.randint(0, VOCAB, {4, 64})
local file = os.tmpname()
local whole, norm, update = {math.huge, math.huge}, {math.huge, math.huge}, {math.huge, math.huge}
for i = 0, o.rounds do
  for k, step in ipairs(steps) do
    collectgarbage()
    local begin = clock()
    step(x, y):item()
    if i > 0 then whole[k] = math.min(whole[k], clock() - begin) end -- the first call compiles
    local squares, updates = acts_of(step, file)
    norm[k], update[k] = math.min(norm[k], squares), math.min(update[k], updates)
  end
end
os.remove(file)
line("a step of 4 x 64 ids without it", nil, whole[2])
line("with it", nil, whole[1])
line("of which squares and the factor", nil, norm[1])
line("AdamW, which then reads gradients again", nil, update[1] - update[2])
