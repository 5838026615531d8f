-- resnet.lua - times a training step and a forward pass of rille.models.resnet on images of 32 x 32, and their
-- convolutions alone.
--
--   RILLE_THREADS=1 rille -d cpu:1 bench/resnet.lua [--batch 32] [--width 16] [--steps 20]     bench/resnet.sh runs it beside PyTorch
--
-- Prints lines "name, what, least, median": milliseconds of processor time. The limit is the time of the convolutions
-- and their gradients alone, each repeated on the same memory. The limit contains no norms, additions or update.

local rille = require "rille"
local o = rille.args(arg, {batch = 32, width = 16, steps = 20})
local BLOCKS <const> = {2, 2, 2}
rille.manual_seed(1)

local timed, report = dofile("bench/processor.lua")(o.steps)

-- ---- the training step and the forward pass ----

local model = rille.models.resnet.new{classes = 10, width = o.width, blocks = BLOCKS}
local opt = rille.optim.SGD(model:parameters(), {lr = 0.01, momentum = 0.9, weight_decay = 1e-4})
local x, y = rille.randn{o.batch, 3, 32, 32}, rille.randint(0, 10, {o.batch})
local step = rille.graph(function(x, y)
  local loss = model(x):cross_entropy(y)
  loss:backward()
  opt:step(); opt:zero_grad()
  return loss
end)
report("Rille", "training", timed(function() step(x, y):item() end))
model:eval()
local pass = rille.graph(function(x) return rille.no_grad(model, x):sum() end)
report("Rille", "inference", timed(function() pass(x):item() end))

-- ---- the convolutions of the step ----

-- Times a convolution from n to m channels: forward alone, and its gradients. Images have `size` x `size` pixels,
-- windows `window` x `window`.
local function convolution(n, m, size, window, stride, first)
  local image = rille.randn({o.batch, n, size, size}, {requires_grad = not first})
  local kernel = rille.randn({m, n, window, window}, {requires_grad = true})
  local dy = rille.randn{o.batch, m, size // stride, size // stride}
  local function y() return rille.conv2d(image, kernel, nil, {stride = stride, padding = window // 2}) end
  local forward = rille.graph(function() return rille.no_grad(y) end)
  local both = rille.graph(function(dy) -- the step returns only gradients, so `sum` is not computed
    (y() * dy):sum():backward()
    local a, b = image.grad, kernel.grad
    image.grad, kernel.grad = nil, nil
    return b, a
  end)
  local alone = timed(function() local y <close> = forward() end)
  local back = timed(function()
    local of_kernel, of_image = both(dy)
    local b <close> = of_kernel
    local a <close> = of_image
  end)
  return alone, alone + back
end

local forward, all = 0, 0
local function add(...)
  local a, b = convolution(...)
  forward, all = forward + a, all + b
end
local width, size = o.width, 32
add(3, width, size, 3, 1, true)
for stage, count in ipairs(BLOCKS) do
  local n = o.width << (stage - 1)
  for i = 1, count do
    local stride = stage > 1 and i == 1 and 2 or 1
    add(width, n, size, 3, stride)
    if width ~= n then add(width, n, size, 1, stride) end
    size, width = size // stride, n
    add(n, n, size, 3, 1)
  end
end
report("limit: convolutions", "training", all, all)
report("limit: convolutions", "inference", forward, forward)
