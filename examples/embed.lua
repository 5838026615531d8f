-- embed.lua - examples/embed.c in Lua: the same operators and numbers, and so the same losses.
--
--   rille -d cpu:2 examples/embed.lua [--plain]

local rille = require "rille"
local nn, optim = rille.nn, rille.optim

local options = rille.args(arg, {plain = false})
local steps, batch = 20, 64
rille.manual_seed(3)

local both = rille.placement("cpu", {0, 1})
local net = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 10))
net:to_global{placement = both, sbp = "B"}
local opt = optim.AdamW(net:parameters(), {weight_decay = 0.01})

local function load(name) return rille.load_npy("examples/data/" .. name, {placement = both, sbp = "B"}) end
local images = load("digits_x.npy"):reshape{1797, 64}:to("f32") / 16
local labels = load("digits_y.npy"):to("i64")

local function train(x, y)
  local loss = net(x):cross_entropy(y)
  loss:backward()
  opt:step()
  opt:zero_grad()
  return loss
end

local step = options.plain and train or rille.graph(train)
local function rows(t, i)
  return t:slice(0, i * batch, (i + 1) * batch):to_global{placement = both, sbp = "S(0)"}
end
for i = 0, steps - 1 do
  opt.lr = 1e-2 * (steps - i) / steps
  print(("%.9g"):format(step(rows(images, i), rows(labels, i)):item()))
end
