-- predict.lua - compares measured times of planned steps with the predictions of whatif.
--
--   rille -d cpu:4 --calibrate && rille -d cpu:2 bench/predict.lua
--   RILLE_THREADS=1 rille -d cpu:2 bench/predict.lua          a single stage, on one core, as the costs were measured
--
-- The first command measures and stores the costs of this machine; predictions are as good as these costs.
local rille = require "rille"
local nn, optim = rille.nn, rille.optim

-- Returns the least time of repeated calls of a step, in seconds, because other work on the machine only adds time.
local function least_time(step, ...)
  local least = math.huge
  for i = 1, 40 do
    local y = step(...)
    local _ = y:item()
    if i > 3 then least = math.min(least, step:stats().step_time) end
  end
  return least
end

local function tell(name, reported, took)
  print(("%-24s %10.3f ms %10.3f ms %+7.0f %%"):format(name, reported * 1e3, took * 1e3, 100 * (reported / took - 1)))
end

local Block = nn.Module:extend("Block")
function Block:init(d)
  self.tokens, self.block = nn.Embedding(1024, d), nn.TransformerBlock(d, 8, {is_causal = true})
  self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, 1024)
end
function Block:forward(ids) return self.head(self.norm(self.block(self.tokens(ids)))) end

local function measured(name, net, x, classes, rows, P)
  net:to_global{placement = P, sbp = "auto"}
  local opt = optim.AdamW(net:parameters(), {lr = 1e-3})
  local step = rille.graph(function(a, y)
    local loss = net(a):reshape{rows, classes}:cross_entropy(y)
    loss:backward(); opt:step(); opt:zero_grad()
    return loss
  end, {auto_parallel = true})
  local y = rille.randint(0, classes, {rows}, {placement = P, sbp = "S(0)"})
  local took = least_time(step, x, y)
  tell(name, rille.whatif(step, {mesh = {#P.ranks}}).step_time, took)
end

-- Builds a deep MLP of two stages with micro-batches; both stages are on one device, or on two.
local function staged(name, schedule, stages)
  local on, net = {}, {}
  for i = 1, 2 do
    on[i] = {placement = rille.placement("cpu", {stages == 2 and i - 1 or 0}), sbp = "B"}
    net[i] = nn.Sequential(nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU()):to_global(on[i])
  end
  local list = nn.Sequential(net[1], net[2])
  local opt = optim.SGD(list:parameters(), {lr = 1e-3})
  local step = rille.graph(function(x)
    local loss = net[2](net[1](x):to_global(on[2])):square():mean()
    loss:backward(); opt:step(); opt:zero_grad()
    return loss
  end, {auto_parallel = true, micro_batches = 8, schedule = schedule})
  local took = least_time(step, rille.randn({8 * 256, 512}, on[1]))
  tell(name, rille.whatif(step, {mesh = {1}}).step_time, took)
end

print(("%-24s %13s %13s %9s"):format("on 2 devices", "predicted", "measured", "error"))
local P = rille.placement("cpu", {0, 1})
local at = {placement = P, sbp = "S(0)"}
local function wide(d) return nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) end
measured("mlp, width 512", wide(512), rille.randn({512, 512}, at), 512, 512, P)
measured("mlp, width 1024", wide(1024), rille.randn({512, 1024}, at), 1024, 512, P)
measured("GPT block, width 256", Block(256), rille.randint(0, 1024, {8, 128}, at), 1024, 1024, P)
measured("GPT block, width 512", Block(512), rille.randint(0, 1024, {8, 128}, at), 1024, 1024, P)
staged("8 pieces, one stage", "1f1b", 1)
staged("2 stages, gpipe", "gpipe", 2)
staged("2 stages, 1f1b", "1f1b", 2)
staged("2 stages, zb-h1", "zb-h1", 2)
