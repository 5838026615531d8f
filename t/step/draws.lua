-- draws.lua - tests random numbers in steps of micro-batches. Values, results and gradients must be those of the
-- complete batch on one device, for any number of micro-batches, stages and ranks. Also tests one number per row, and
-- numbers for several blocks of rows.
local tap = dofile("t/lib/tap.lua")

local ROWS <const>, WIDTH <const> = 8, 6
local P0, P1, P01, P23 = rille.placement("cpu", {0}), rille.placement("cpu", {1}), rille.placement("cpu", {0, 1}), rille.placement("cpu", {2, 3})

-- Checks that random numbers of the batch do not depend on micro-batches, stages and ranks. Values, results and
-- gradients of two calls must be those of the complete batch on one device.
tap.group("random numbers", function()
  local functions = {
    dropout = function(x) return x:dropout(0.4) end,
    ["dropout of weights"] = function(x, w) return x:matmul(w:dropout(0.3)) end,
    ["dropout with rows second"] = function(x) return x:reshape{-1, 2, WIDTH // 2}:permute{1, 0, 2}:dropout(0.3):permute{1, 0, 2}:reshape{-1, WIDTH} end,
    ["dropout of two blocks"] = function(x) return rille.concat({x, x}, 0):dropout(0.3)[{{0, x.shape[1]}}] end,
    ["dropout computed again"] = function(x) return require "rille.step.recomputed"(function(y) return (y * 2):dropout(0.4):tanh() end, x) end,
    rand = function(x) return x * rille.rand(x.shape):lt(0.5) end,
    randn = function(x) return x + rille.randn(x.shape) end,
    randint = function(x) return x * rille.randint(1, 9, x.shape) end,
    ["noise for two blocks"] = function(x) local z = rille.concat({x, x * 2}, 0); return (z + rille.randn(z.shape) * 0.5)[{{x.shape[1], 2 * x.shape[1]}}] end,
    ["a mask for two blocks"] = function(x) local z = rille.concat({x, x}, 0); return rille.rand{#z, 1}:lt(0.5):where(z, 0)[{{0, x.shape[1]}}] end,
    ["numbers per row"] = function(x) return x * rille.rand{x.shape[1], 1} end,
    ["numbers without rows"] = function(x) return x * rille.randn{WIDTH} end,
  }
  local function values(fn, m, p1, p2, sbp)
    rille.manual_seed(5)
    local x = rille.randn{ROWS, WIDTH}:to_global{placement = p1, sbp = sbp}:detach()
    local a = rille.randn{WIDTH, WIDTH}:to_global{placement = p1, sbp = "B"}:detach():requires_grad_()
    local b = rille.randn{WIDTH, WIDTH}:to_global{placement = p2, sbp = "B"}:detach():requires_grad_()
    local step = rille.graph(function(x)
      local y = fn(x:matmul(a), a):to_global{placement = p2, sbp = sbp}
      y = fn(y:matmul(b), b):to_global{placement = p2, sbp = sbp}
      local loss = y:square():mean() + y:sum()
      loss:backward()
      return y, loss
    end, {micro_batches = m})
    local list = {}
    for _ = 1, 2 do
      a.grad, b.grad = nil, nil
      local y, loss = step(x)
      for _, t in ipairs{y, loss, a.grad, b.grad} do list[#list + 1] = t:totable() end
    end
    return list
  end
  for name, fn in pairs(functions) do
    local want = values(fn, 1, P0, P0, "B")
    for _, c in ipairs{{2, P0, P0, "B"}, {8, P0, P0, "B"}, {4, P0, P1, "B"}, {4, P01, P01, "S(0)"}, {2, P01, P23, "S(0)"}, {2, P01, P23, "S(1)"}} do
      local what = ("%s, %d micro-batches, %s, %s on %s"):format(name, c[1], c[2] == c[3] and "one stage" or "two stages", c[4], c[2])
      tap.near(values(fn, table.unpack(c)), want, what, 1e-4, 1e-4)
    end
  end
  local function apart(x) return rille.per_micro_batch(function() return x:dropout(0.5) end) end
  local y = rille.graph(apart, {micro_batches = 2})(rille.ones{2, 64}):totable()
  tap.ok(tostring(rille.tensor(y[1])) ~= tostring(rille.tensor(y[2])), "in per_micro_batch, each micro-batch has a sequence of its own")
end)

-- ---- random programs ----

local seed = tap.seed(1)
local calls = { -- functions of x, which has rows, and w, a square weight
  function(x) return x:dropout(0.3) end,
  function(x) return x + rille.randn(x.shape) * 0.1 end,
  function(x) return x * rille.rand{x.shape[1], 1} end,
  function(x) return rille.rand(x.shape):lt(0.7):where(x, 0) end,
  function(x) return x * rille.randn{WIDTH} end,
  function(x) local z = rille.concat({x, x:exp()}, 0):dropout(0.2); return z[{{0, x.shape[1]}}] + z[{{x.shape[1], 2 * x.shape[1]}}] end,
  function(x) return x:reshape{-1, 2, WIDTH // 2}:permute{1, 0, 2}:dropout(0.4):permute{1, 0, 2}:reshape{-1, WIDTH} end,
  function(x) return x + x[{rille.arange(#x), x:argmax(1)}]:unsqueeze(1) end,
  function(x)
    local y = rille.zeros(x.shape, {placement = x.placement, sbp = "B"}):clone()
    y[{rille.arange(#x), x:argmin(1)}] = 1
    return x + y
  end,
  function(x, w) return x:matmul(w) end,
  function(x, w) return x:matmul(w:dropout(0.2)) end,
  function(x) return x / (x:square():sum(1, true) + 1) end,
  function(x) return (x + rille.randint(0, 3, x.shape)):softmax(1) end,
  function(x) return x:reshape{-1}:dropout(0.1):reshape{-1, WIDTH} end,
  function(x) return (rille.ones(x.shape) * 2 + rille.rand(x.shape)) * x end,
  function(x) local d = rille.rand(x.shape); return x * d + d end,
  function(x) return x:unsqueeze(1):expand{-1, 3, WIDTH}:dropout(0.3):mean(1) end,
}
local losses = {
  function(y) return y:square():mean() end,
  function(y) return y:sum() end,
  function(y) return y:cross_entropy(rille.zeros({#y}, {dtype = "i64"})) end,
  function(y) return (y * rille.rand(y.shape)):sum() / y.shape[1] end,
}

local function run(program, loss_of, number, m, place, sbp)
  rille.manual_seed(number)
  local x = rille.randn{ROWS, WIDTH}:to_global{placement = place, sbp = sbp}:detach()
  local w = (rille.randn{WIDTH, WIDTH} * 0.5):to_global{placement = place, sbp = "B"}:detach():requires_grad_()
  local step = rille.graph(function(t)
    local y = t:matmul(w)
    for _, k in ipairs(program) do y = calls[k](y, w) end
    local loss = loss_of(y)
    loss:backward()
    return loss, y:to_global{placement = place, sbp = sbp}
  end, {micro_batches = m})
  local loss, y = step(x)
  return {loss:item(), y:totable(), w.grad:totable()}
end

for number = 1, 240 do
  math.randomseed(seed, number)
  local program, loss = {}, losses[math.random(#losses)]
  for i = 1, math.random(2, 6) do program[i] = math.random(#calls) end
  if tap.share(number) then
    local want = run(program, loss, number, 1, P0, "B")
    for _, c in ipairs{{2, P0, "B"}, {8, P0, "B"}, {2, P01, "S(0)"}, {4, P01, "B"}} do
      local what = ("program %d (%s), %d micro-batches, %s on %s"):format(number, table.concat(program, " "), c[1], c[3], c[2])
      tap.near(run(program, loss, number, table.unpack(c)), want, what, 1e-4, 1e-4)
    end
  end
end

tap.done()
