-- norm2d.lua - tests nn.BatchNorm2d: in any layout, statistics are those of the complete batch, and running
-- statistics change once per step.
local tap = dofile("t/lib/tap.lua")
local nn = rille.nn
local P = rille.placement("cpu", {0, 1})
rille.manual_seed(2)
local x = rille.randn{8, 3, 4, 4} * 2 + 1

local function flat(t) return t:reshape{-1}:totable() end

tap.group("one batch", function()
  local bn = nn.BatchNorm2d(3)
  local y = bn(x)
  tap.near(y:mean{axis = {0, 2, 3}}:totable(), {0, 0, 0}, "each channel has mean 0", 1e-5, 1e-5)
  tap.near(y:square():mean{axis = {0, 2, 3}}:totable(), {1, 1, 1}, "each channel has variance 1", 1e-4)
  local rows = x:permute{1, 0, 2, 3}:reshape{3, -1}
  tap.near(bn.running_mean:totable(), (rows:mean{axis = 1} * 0.1):totable(), "the running mean moves a tenth of the way")
  tap.near(bn.running_var:totable(), (rows:var{axis = 1} * 0.1 + 0.9):totable(), "the running variance, unbiased, moves a tenth of the way", 1e-4)
  bn:eval()
  local before = bn.running_mean:totable()
  tap.near(flat(bn(x)), flat((x - bn.running_mean:reshape{1, 3, 1, 1}) / (bn.running_var:reshape{1, 3, 1, 1} + 1e-5):sqrt()),
    "eval uses the running statistics", 1e-4, 1e-5)
  tap.is(bn.running_mean:totable(), before, "eval does not change the running statistics")
  tap.fails(function() bn(rille.ones{2, 3}) end, {"nn.BatchNorm2d", "input must have 4 dimensions", "found 2", "norm2d.lua"}, "an input that is no image is refused")
end)

-- Checks an empty batch, which has no statistics. The last batch of a split data set may be empty.
tap.group("no rows", function()
  local bn = nn.BatchNorm2d(3)
  bn(x)
  local before = {bn.running_mean:totable(), bn.running_var:totable()}
  local y = bn(x:slice(0, 0, 0))
  tap.is(y.shape, {0, 3, 4, 4}, "an empty batch returns an empty result")
  tap.is({bn.running_mean:totable(), bn.running_var:totable()}, before, "an empty batch does not change the running statistics")
  tap.is(bn(rille.ones{2, 3, 0, 4}).shape, {2, 3, 0, 4}, "images of size 0 return an empty result")
  tap.is({bn.running_mean:totable(), bn.running_var:totable()}, before, "images of size 0 do not change the running statistics")
end)

-- Returns a list of results in x's dtype: output; gradients of x, weight and bias; a second gradient; running
-- statistics; output in eval mode.
local function parts(x, slant, again, place, sbp)
  local bn = nn.BatchNorm2d(3):to(x.dtype)
  bn:to_global{placement = place, sbp = "B"}
  local function placed(t) return t:to(x.dtype):to_global{placement = place, sbp = sbp} end
  local leaf = placed(x):detach():requires_grad_()
  local y = bn(leaf)
  local dx, dw, db = rille.grad((y * placed(slant)):sum(), {leaf, bn.weight, bn.bias})
  local of = {["the result"] = y, ["the gradient of x"] = dx, ["the gradient of the weight"] = dw, ["the gradient of the bias"] = db,
    ["the second gradient"] = rille.grad((dx * placed(again)):sum(), {leaf}),
    ["the running mean"] = bn.running_mean, ["the running variance"] = bn.running_var}
  bn:eval()
  of["the result with running statistics"] = bn(leaf)
  return of
end

-- Checks that 16-bit inputs are computed in f32 and rounded once. In f16, squares of large deviations would overflow,
-- and squares of small deviations would vanish.
tap.group("every dtype", function()
  local one = rille.placement("cpu", {0})
  local base, slant, again = rille.randn{8, 3, 6, 6}, rille.randn{8, 3, 6, 6}, rille.randn{8, 3, 6, 6} * 8
  local least = 2 ^ -24 -- the smallest positive f16
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

-- Returns the loss, the weight's gradient, and the running statistics after a step.
local function step(place, sbp, pieces)
  local bn = nn.BatchNorm2d(3)
  bn:to_global{placement = place, sbp = "B"}
  local a = x:to_global{placement = place, sbp = sbp}
  local function run(v) return tap_backward((bn(v) * v):square():sum()) end
  local loss = (pieces and rille.graph(run, {micro_batches = pieces}) or run)(a)
  return {loss:item(), bn.weight.grad:totable(), bn.running_mean:totable(), bn.running_var:totable()}
end

tap.group("layouts", function()
  local one = rille.placement("cpu", {0})
  local want = step(one, "B")
  tap.near(step(P, "S(0)"), want, "a split batch has the statistics of all ranks", 1e-4, 1e-5)
  tap.near(step(P, "S(1)"), want, "split channels have the same statistics", 1e-4, 1e-5)
  tap.near(step(one, "B", 1), want, "a compiled step has the same statistics", 1e-4, 1e-5)
  local pieces = step(one, "B", 2)
  local bn = nn.BatchNorm2d(3)
  local means = {}
  for k = 0, 1 do
    local part = x:slice(0, 4 * k, 4 * k + 4)
    means[k + 1] = part:mean{axis = {0, 2, 3}}
  end
  tap.near(pieces[3], ((means[1] + means[2]) * 0.05):totable(), "micro-batches change the running statistics once, by their mean", 1e-4)
  tap.near(step(P, "S(0)", 2)[3], pieces[3], "micro-batches of a split batch change them equally", 1e-4)
  local text = tap.run("", [[
    local norm, x = rille.nn.BatchNorm2d(2), rille.randn{4, 2, 3, 3}
    for _, m in ipairs{1, 2, 4} do rille.graph(function(x) return norm(x):square():mean() end, {micro_batches = m})(x) end
    norm:eval()
    rille.graph(function(x) return norm(x):square():mean() end, {micro_batches = 2})(x)]])
  local _, times = text:gsub("with micro_batches = 2, each micro%-batch is normalised by its own mean and variance", "")
  tap.is({times, select(2, text:gsub("warning", ""))}, {1, 1}, "a training step of micro-batches is warned of once")
end)

tap.done()
