-- pictures.lua - makes the pictures of docs/guide: RILLE_THREADS=4 rille -d cpu:4 docs/pictures.lua [folder]

local rille = require "rille"
local folder = arg[1] or "docs"
local function file(name) return ("%s/%s.svg"):format(folder, name) end

-- ---- layouts and moves ----

local line = rille.placement("cpu", {0, 1, 2, 3})
local mesh = rille.placement("cpu", {{0, 1}, {2, 3}})
rille.ones({6, 8}, {placement = mesh, sbp = {"B", "S(0)"}}):show(file("sight-layout"))
rille.boxing{shape = {8, 8}, from = {placement = line, sbp = "S(0)"}, to = {placement = line, sbp = "S(1)"}}:show(file("sight-move"))
rille.boxing{shape = {8, 8}, from = {placement = line, sbp = "P"}, to = {placement = line, sbp = "S(0)"}}:show(file("sight-sum"))

-- ---- a model, split ----

local model = rille.models.gpt2.new{vocab = 50304, length = 1024, layers = 12, heads = 12, width = 768,
  placement = rille.placement("meta", {{0, 1}, {2, 3}}), sbp = {"B", "B"}}
rille.parallel(model, {data = 0, tensor = 1})
model:show(file("sight-model"))

-- ---- a pipeline ----

local STAGES <const>, LAYERS <const>, PIECES <const>, WIDTH <const> = 4, 2, 8, 64 -- LAYERS: per stage
local on, weight = {}, {}
for s = 1, STAGES do
  on[s] = rille.placement("cpu", {s - 1})
  weight[s] = {}
  for k = 1, LAYERS do weight[s][k] = rille.randn({WIDTH, WIDTH}, {placement = on[s]}):requires_grad_(true) end
end
local function pipeline(schedule)
  local step = rille.graph(function(x, y)
    for s = 1, STAGES do
      if s > 1 then x = x:to_global{placement = on[s], sbp = "B"} end
      for k = 1, LAYERS do x = x:matmul(weight[s][k]):tanh() end
    end
    local loss = x:mse_loss(y)
    loss:backward()
    return loss
  end, {micro_batches = PIECES, schedule = schedule})
  for _ = 1, 3 do
    step(rille.randn({16 * PIECES, WIDTH}, {placement = on[1]}), rille.randn({16 * PIECES, WIDTH}, {placement = on[STAGES]}))
  end
  return step
end

-- Products sleep, so stages run in parallel on few cores, too (RILLE_THREADS=4).
rille._slow_op("matmul", 0.005)
rille._slow_op("contract", 0.005) -- gradients of weights
pipeline("1f1b"):show(file("sight-1f1b"))
