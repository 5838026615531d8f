-- digits.lua - trains a classifier of handwritten digits on four devices, in six layouts.
--
--   rille examples/digits.lua                       a pipeline of two stages, each on two devices (pp-tp)
--   rille examples/digits.lua --layout dp           the batch split over four devices
--   rille examples/digits.lua --layout single       one device
--
-- A perceptron 64-256-256-10 is trained on 1,437 images and tested on the other 360. Only the table below differs between
-- the layouts, and all layouts give the same losses.

local rille = require "rille"
local nn, optim = rille.nn, rille.optim

local options = rille.args(arg, {layout = "pp-tp", epochs = 40, batch = 64, seed = 3, lr = 3e-3, log = "", plain = false,
  steps = math.maxinteger, ["micro-batches"] = 0})
rille.manual_seed(options.seed)

-- ---- layouts: placements of the first and the other layers; SBP of a batch and of the weights ----

local function on(...) return rille.placement("cpu", ...) end
local all, mesh = on{0, 1, 2, 3}, on{{0, 1}, {2, 3}}
local layouts = {
  --          first layer      other layers     batch           weight 1        weight 2        the rest
  single   = {on{0},           on{0},           "B",            "B",            "B",            "B"},
  dp       = {all,             all,             "S(0)",         "B",            "B",            "B"},
  tp       = {all,             all,             "B",            "S(0)",         "S(1)",         "B"},
  ["dp-tp"] = {mesh,           mesh,            {"S(0)", "B"},  {"B", "S(0)"},  {"B", "S(1)"},  {"B", "B"}},
  pp       = {on{0},           on{1},           "B",            "B",            "B",            "B"},
  ["pp-tp"] = {on{0, 1},       on{2, 3},        "B",            "S(0)",         "S(1)",         "B"},
}
local layout = layouts[options.layout] or error("unknown layout '" .. options.layout .. "'")
local first, second, batch_sbp, weight1_sbp, weight2_sbp, whole = table.unpack(layout)

-- ---- the network ----

local Net = nn.Module:extend("Net")

function Net:init()
  self.fc1 = nn.Linear(64, 256)
  self.fc2 = nn.Linear(256, 256)
  self.fc3 = nn.Linear(256, 10)
end

function Net:forward(x)
  local h = self.fc1(x):gelu()
  h = h:to_global{placement = second, sbp = h.sbp} -- moves h to the next stage; the SBP is unchanged
  return self.fc3(self.fc2(h):gelu())
end

local net = Net()
net.fc1:to_global{placement = first, sbp = whole}
net.fc2:to_global{placement = second, sbp = whole}
net.fc3:to_global{placement = second, sbp = whole}
net.fc1.weight:to_global_{placement = first, sbp = weight1_sbp} -- split by rows: each rank computes some of the features
net.fc1.bias:to_global_{placement = first, sbp = weight1_sbp}
net.fc2.weight:to_global_{placement = second, sbp = weight2_sbp} -- split by columns: each rank reads its own features

-- ---- data: 80 % for training, 20 % for the test, after a shuffle with a fixed seed ----

local here = arg[0]:match("^(.*/)") or "./"
local order = rille.tensor(rille.data.permutation(1797, options.seed), {dtype = "i64"})
local images = rille.load_npy(here .. "data/digits_x.npy"):reshape{1797, 64}:index_select(0, order):to("f32") / 16
local labels = rille.load_npy(here .. "data/digits_y.npy"):index_select(0, order):to("i64")
images = images:to_global{placement = first, sbp = whole}
labels = labels:to_global{placement = second, sbp = whole}

local ntrain = 1797 * 8 // 10
local batches = rille.data.loader{images:slice(0, 0, ntrain), labels:slice(0, 0, ntrain),
  batch = options.batch, shuffle = true, seed = options.seed, drop_last = true, sbp = batch_sbp}

-- ---- training ----

local total = math.min(options.epochs * #batches, options.steps)
local rate = optim.cosine{lr = options.lr, warmup = 20, steps = math.max(total, 20)}
local opt = optim.AdamW(net:parameters(), {lr = rate(0), weight_decay = 0.01})

local function step(x, y)
  local loss = net(x):cross_entropy(y)
  loss:backward()
  opt:step()
  opt:zero_grad()
  return loss
end

local pieces = options["micro-batches"]
if pieces == 0 then pieces = first == second and 1 or 4 end -- a pipeline needs several micro-batches
local run = options.plain and step or rille.graph(step, {micro_batches = pieces})

local progress = rille.train.progress{total = total, step = not options.plain and run or nil}
local log = options.log ~= "" and assert(io.open(options.log, "w"))
for i = 1, total do
  opt.lr = rate(i - 1) -- compiled steps read lr before each call
  local loss = run(batches:next()):item()
  progress:update(i, loss, options.batch)
  if log then log:write(("%.9g\n"):format(loss)) end
end
progress:finish()
if log then log:close() end

-- ---- the test ----

net:eval()
local guess = net(images:slice(0, ntrain, 1797)):argmax(-1)
local right = guess:eq(labels:slice(0, ntrain, 1797)):to("f32"):mean():item()
print(("layout %s: %.2f %% of %d held-out images are read correctly"):format(options.layout, 100 * right, 1797 - ntrain))
