-- nn.BatchNorm2d: statistics are those of a batch however it lies, and running ones change once a step.
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"
local nn = rille.nn
local P = rille.placement("cpu", {0, 1})
rille.manual_seed(2)
local x = rille.randn{8, 3, 4, 4} * 2 + 1

local function flat(t) return t:reshape{-1}:totable() end

tap.group("one batch", function()
  local bn = nn.BatchNorm2d(3)
  local y = bn(x)
  tap.near(y:mean{axis = {0, 2, 3}}:totable(), {0, 0, 0}, "each channel has mean 0", 1e-5, 1e-5)
  tap.near(y:square():mean{axis = {0, 2, 3}}:totable(), {1, 1, 1}, "and variance 1", 1e-4)
  local rows = x:permute{1, 0, 2, 3}:reshape{3, -1}
  tap.near(bn.running_mean:totable(), (rows:mean{axis = 1} * 0.1):totable(), "the running mean goes a tenth of the way")
  tap.near(bn.running_var:totable(), (rows:var{axis = 1} * 0.1 + 0.9):totable(), "so does the variance, the unbiased one", 1e-4)
  bn:eval()
  local before = bn.running_mean:totable()
  tap.near(flat(bn(x)), flat((x - bn.running_mean:reshape{1, 3, 1, 1}) / (bn.running_var:reshape{1, 3, 1, 1} + 1e-5):sqrt()),
    "eval takes the running ones", 1e-4, 1e-5)
  tap.is(bn.running_mean:totable(), before, "and leaves them")
  tap.fails(function() bn(rille.ones{2, 3}) end, {"nn.BatchNorm2d", "2 dimensions", "norm2d.lua"}, "images are wanted")
end)

-- An empty batch, as the last of a split data set may be, has no statistics.
tap.group("no rows", function()
  local bn = nn.BatchNorm2d(3)
  bn(x)
  local before = {bn.running_mean:totable(), bn.running_var:totable()}
  local y = bn(x:slice(0, 0, 0))
  tap.is(y.shape, {0, 3, 4, 4}, "an empty batch gives one")
  tap.is({bn.running_mean:totable(), bn.running_var:totable()}, before, "and leaves the running ones")
  tap.is(bn(rille.ones{2, 3, 0, 4}).shape, {2, 3, 0, 4}, "so do images of no size")
  tap.is({bn.running_mean:totable(), bn.running_var:totable()}, before, "which leave them too")
end)

-- What a step gives of x in a dtype: the result, the gradients of x, weight and bias, a gradient's gradient, running ones.
local function parts(x, slant, again, place, sbp)
  local bn = nn.BatchNorm2d(3):to(x.dtype)
  bn:to_global{placement = place, sbp = "B"}
  local function laid(t) return t:to(x.dtype):to_global{placement = place, sbp = sbp} end
  local leaf = laid(x):detach():requires_grad_()
  local y = bn(leaf)
  local dx, dw, db = rille.grad((y * laid(slant)):sum(), {leaf, bn.weight, bn.bias}, {create_graph = true})
  local of = {["the result"] = y, ["its gradient"] = dx, ["that of the weight"] = dw, ["that of the bias"] = db,
    ["the gradient's gradient"] = rille.grad((dx * laid(again)):sum(), {leaf}),
    ["the running mean"] = bn.running_mean, ["the running variance"] = bn.running_var}
  bn:eval()
  of["the result with running ones"] = bn(leaf)
  return of
end

-- Halves are computed in f32 and rounded once: squares of what is far from the mean pass what f16 holds, those of what is
-- near vanish.
tap.group("every dtype", function()
  local one = rille.placement("cpu", {0})
  local base, slant, again = rille.randn{8, 3, 6, 6}, rille.randn{8, 3, 6, 6}, rille.randn{8, 3, 6, 6} * 8
  local least = 2 ^ -24 -- of f16, above 0
  for d, eps in pairs{f16 = 2 ^ -10, bf16 = 2 ^ -7, f32 = 2 ^ -23, f64 = 2 ^ -49} do
    for _, c in ipairs{{1e-3, 0}, {1, 0}, {1, 1000}, {30, 0}, {80, 0}, {300, -100}, {700, 0}} do
      local x = (base * c[1] + c[2]):to(d)
      local want = parts(x:to"f64", slant:to(d), again:to(d), one, "B")
      for _, l in ipairs{{one, "B"}, {P, "S(0)"}, {P, "S(1)"}} do
        for part, v in pairs(parts(x, slant:to(d), again:to(d), l[1], l[2])) do
          local got, exact = v:to_global{placement = one, sbp = "B"}, want[part]
          local err, size = (got:to"f64" - exact):abs():max():item(), exact:abs():max():item()
          tap.ok(v.dtype == d and err <= 4 * eps * size + (d == "f16" and least or 0),
            ("%s, deviation %g, mean %g, %s: %s"):format(d, c[1], c[2], l[2], part),
            ("%s, off by %g of %g"):format(v.dtype, err, size))
        end
      end
    end
  end
end)

-- Gradient of the input and running values after a step.
local function step(place, sbp, pieces)
  local bn = nn.BatchNorm2d(3)
  bn:to_global{placement = place, sbp = "B"}
  local a = x:to_global{placement = place, sbp = sbp}
  local function run(v)
    local loss = (bn(v) * v):square():sum()
    loss:backward()
    return loss
  end
  local loss = (pieces and rille.graph(run, {micro_batches = pieces}) or run)(a)
  return {loss:item(), bn.weight.grad:totable(), bn.running_mean:totable(), bn.running_var:totable()}
end

tap.group("layouts", function()
  local one = rille.placement("cpu", {0})
  local want = step(one, "B")
  tap.near(step(P, "S(0)"), want, "a split batch has the statistics of all ranks", 1e-4, 1e-5)
  tap.near(step(P, "S(1)"), want, "split channels too", 1e-4, 1e-5)
  tap.near(step(one, "B", 1), want, "a compiled step too", 1e-4, 1e-5)
  local pieces = step(one, "B", 2)
  local bn = nn.BatchNorm2d(3)
  local means = {}
  for k = 0, 1 do
    local part = x:slice(0, 4 * k, 4 * k + 4)
    means[k + 1] = part:mean{axis = {0, 2, 3}}
  end
  tap.near(pieces[3], ((means[1] + means[2]) * 0.05):totable(), "micro-batches change the running ones once, by their mean", 1e-4)
  tap.near(step(P, "S(0)", 2)[3], pieces[3], "on every layout", 1e-4)
end)

tap.done()
