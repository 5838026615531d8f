-- auto.lua - the digits, laid out by nobody: what a planner chooses, beside layouts made by hand.
--
--   rille -d cpu:4 examples/auto.lua
--
-- Each line is one compiled training step: its cost as the planner reckons it, the bytes that its moves send, and what
-- the loss is after twenty of them. The planned step says how far from the best plan it can be at most; what proves it is
-- written into a file that `rille verify` checks.
local rille = require "rille"
local nn, optim = rille.nn, rille.optim
local P = rille.placement("cpu", {0, 1, 2, 3})

local function train(name, batch, weights, mode)
  rille.manual_seed(7)
  local net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
  net:to_global{placement = P, sbp = weights and "B" or "auto"}
  for i, sbp in pairs(weights or {}) do net:parameters()[i]:to_global_{placement = P, sbp = sbp} end
  local opt = optim.AdamW(net:parameters(), {lr = 1e-3})
  local step = rille.graph(function(x, y)
    local loss = net(x):cross_entropy(y)
    loss:backward(); opt:step(); opt:zero_grad()
    return loss
  end, {auto_parallel = mode, time_limit = 60}) -- seconds at most; it takes some milliseconds
  local x = rille.rand({256, 64}, {placement = P, sbp = batch})
  local y = rille.randint(0, 10, {256}, {placement = P, sbp = batch})
  local loss
  for _ = 1, 20 do loss = step(x, y) end
  local e = step:explain()
  print(("%-34s %9d ns  bound %9d ns  %9d bytes  loss %.4f"):format(name, e.cost, e.bound, e.bytes, loss:item()))
  return step, net
end

local none = {}
train("data parallel, by hand", "S(0)", none, "greedy")
train("tensor parallel, by hand", "B", {[1] = "S(0)", [2] = "S(0)", [3] = "S(1)"}, "greedy")
train("by hand, moves outward from there", "S(0)", none, "propagate")
local step, net = train("by nobody", "S(0)", nil, true)

print("\nwhere the parameters went:")
for name, p in net:named_parameters() do print(("  %-10s %s"):format(name, p.sbp)) end

local path = os.tmpname()
step:certify(path)
print("\n" .. rille.certificate(path))
os.remove(path)

local far = rille.whatif(step, {mesh = {64, 8}, bandwidth = {25e9, 400e9}, latency = {5e-6, 1e-6}, flops = 4e14})
print(("on 64 x 8 devices that are not here: %.1f us a step"):format(far.step_time * 1e6))
