-- resnet.lua - trains a residual network on handwritten digits, on one device or with the batch split over several.
--
--   rille examples/resnet.lua                 one device
--   rille examples/resnet.lua --recipe dp     four devices; norms use the statistics of the whole batch
--   rille examples/resnet.lua --recipe zero   parameters, gradients and optimiser state are sharded, too

local rille = require "rille"
local optim = rille.optim

local o = rille.args(arg, {recipe = "single", steps = 200, batch = 64, width = 8, lr = 0.05, seed = 3})
for _, name in ipairs{"steps", "batch", "width"} do
  if o[name] < 1 then error(("--%s must be at least 1, found %d"):format(name, o[name]), 0) end
end
rille.manual_seed(o.seed)
local recipes = {single = {{0}, {}}, dp = {{0, 1, 2, 3}, {data = 0}}, zero = {{0, 1, 2, 3}, {data = 0, zero = 3}}}
local recipe = recipes[o.recipe] or error("unknown recipe '" .. o.recipe .. "'; expected one of: dp, single, zero", 0)
local placement = rille.placement("cpu", recipe[1])

local here = arg[0]:match("^(.*/)") or "./"
local order = rille.tensor(rille.data.permutation(1797, o.seed), {dtype = "i64"})
local images = rille.load_npy(here .. "data/digits_x.npy"):reshape{1797, 1, 8, 8}:index_select(0, order):to("f32") / 16
local labels = rille.load_npy(here .. "data/digits_y.npy"):index_select(0, order):to("i64")
images, labels = images:to_global{placement = placement, sbp = "B"}, labels:to_global{placement = placement, sbp = "B"}
local n = 1797 * 8 // 10
local batches = rille.data.loader{images:slice(0, 0, n), labels:slice(0, 0, n), batch = o.batch, shuffle = true, seed = o.seed,
  drop_last = true, sbp = "S(0)"}

local model = rille.models.resnet.new{classes = 10, channels = 1, width = o.width, blocks = {1, 1, 1}, placement = placement}
rille.parallel(model, recipe[2])
local opt = optim.SGD(model:parameters(), {lr = o.lr, momentum = 0.9, nesterov = true, weight_decay = 1e-4})
local lr = optim.cosine{lr = o.lr, warmup = math.min(10, o.steps), steps = o.steps}
local step = rille.graph(function(x, y)
  local loss = model(x):cross_entropy(y)
  loss:backward(); opt:step(); opt:zero_grad()
  return loss
end)

local line = rille.train.progress{total = o.steps, step = step}
for t = 1, o.steps do
  opt.lr = lr(t - 1)
  local loss = step(batches:next()):item()
  if not (math.abs(loss) < math.huge) then error(("step %d: the loss is %g; try a lower --lr"):format(t, loss), 0) end
  line:update(t, loss, o.batch)
end
line:finish()

model:eval() -- norms use their running statistics
local guess = rille.no_grad(model, images:slice(0, n, 1797)):argmax(-1)
local right = guess:eq(labels:slice(0, n, 1797)):to("f32"):mean():item()
print(("%s: %.2f %% of %d held-out images are read correctly"):format(o.recipe, 100 * right, 1797 - n))
