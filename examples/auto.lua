-- auto.lua - compares layouts that a planner chooses with layouts written by hand, for a classifier of digits and a GPT
-- block.
--
--   rille -d cpu:4 examples/auto.lua [picture.svg]
--
-- Each line is one compiled training step: the cost that the planner estimates, the bytes that redistributions send, the
-- measured time of a step, and the loss after ten steps. The bars show the costs. The planner also proves a lower bound
-- of the cost of all plans. The proof is written to a file, and `rille verify` checks it.
local rille = require "rille"
local nn, optim = rille.nn, rille.optim
local P = rille.placement("cpu", {0, 1, 2, 3})
local STEPS, BAR = 10, 40

-- ---- two models, and the layouts by hand: parameter name -> layout ----

local digits = {
  name = "digits",
  net = function() return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)) end,
  input = function(at) return rille.rand({256, 64}, at) end,
  classes = 10, rows = 256,
  tensor_parallel = {["0.weight"] = "S(0)", ["0.bias"] = "S(0)", ["2.weight"] = "S(1)"},
}

local Gpt = nn.Module:extend("Gpt")
function Gpt:init()
  self.tokens, self.block = nn.Embedding(256, 64), nn.TransformerBlock(64, 8, {is_causal = true})
  self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, 256, {bias = false})
end
function Gpt:forward(ids) return self.head(self.norm(self.block(self.tokens(ids)))):reshape{16 * 32, 256} end

local gpt = {
  name = "a block of GPT",
  net = Gpt,
  input = function(at) return rille.randint(0, 256, {16, 32}, at) end,
  classes = 256, rows = 16 * 32,
  tensor_parallel = {["block.attention.out_proj.weight"] = "S(1)", ["block.fc1.weight"] = "S(0)", ["block.fc1.bias"] = "S(0)",
    ["block.fc2.weight"] = "S(1)"},
}
for _, name in ipairs{"q_proj", "k_proj", "v_proj"} do
  gpt.tensor_parallel["block.attention." .. name .. ".weight"] = "S(0)"
  gpt.tensor_parallel["block.attention." .. name .. ".bias"] = "S(0)"
end

-- ---- training in one layout ----

-- batch: SBP of the arguments; weights: SBP by parameter name, or "auto".
local function train(model, batch, weights, mode)
  rille.manual_seed(7)
  local net = model.net()
  net:to_global{placement = P, sbp = weights == "auto" and "auto" or "B"}
  for name, p in net:named_parameters() do
    local sbp = weights ~= "auto" and weights[name]
    if sbp then p:to_global_{placement = P, sbp = sbp} end
  end
  local opt = optim.AdamW(net:parameters(), {lr = 1e-3})
  local step = rille.graph(function(x, y)
    local loss = net(x):cross_entropy(y)
    loss:backward(); opt:step(); opt:zero_grad()
    return loss
  end, {auto_parallel = mode, time_limit = 60}) -- time limit of the search, s; the search takes a fraction of a second
  local at = {placement = P, sbp = batch}
  local x, y = model.input(at), rille.randint(0, model.classes, {model.rows}, at)
  local loss, least = nil, math.huge
  for _ = 1, STEPS do
    loss = step(x, y):item()
    least = math.min(least, step:stats().step_time)
  end
  return {explain = step:explain(), loss = loss, seconds = least, step = step, net = net}
end

local methods = {
  {"data parallel, by hand", "S(0)", function() return {} end, "greedy"},
  {"tensor parallel, by hand", "B", function(model) return model.tensor_parallel end, "greedy"},
  {"by hand, the rest by propagation", "S(0)", function() return {} end, "propagate"},
  {"planned", "S(0)", function() return "auto" end, true},
}

local planned
for _, model in ipairs{digits, gpt} do
  local runs, most = {}, 0
  for i, method in ipairs(methods) do
    runs[i] = train(model, method[2], method[3](model), method[4])
    most = math.max(most, runs[i].explain.cost)
  end
  print(("%s on 4 devices%26s %11s %11s %9s %7s"):format(model.name, "ns per step", "at least", "bytes", "measured", "loss"))
  for i, run in ipairs(runs) do
    local e = run.explain
    print(("  %-34s %9d %11d %11d %6.2f ms %7.4f  %s"):format(methods[i][1], e.cost, e.bound, e.bytes, run.seconds * 1e3, run.loss,
      ("#"):rep(math.max(1, math.floor(BAR * e.cost / most + 0.5)))))
  end
  planned = runs[#runs]
  local cut = {}
  for name, p in planned.net:named_parameters() do
    if p.sbp ~= "B" then cut[#cut + 1] = name .. " " .. p.sbp end
  end
  print("  sharded by the planner: " .. (#cut > 0 and table.concat(cut, ", ") or "no parameter") .. "\n")
end

-- ---- the proof, the picture, and a cluster that does not exist ----

local path = os.tmpname()
planned.step:certify(path)
print(rille.certificate(path))
os.remove(path)
if arg[1] then planned.step:show(arg[1]) end

local far = rille.whatif(planned.step, {mesh = {64, 8}, bandwidth = {25e9, 400e9}, latency = {5e-6, 1e-6}, flops = 4e14})
print(("predicted for 64 x 8 devices: %.1f us per step"):format(far.step_time * 1e6))
