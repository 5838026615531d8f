-- norm-parts.lua - compares layer_norm and rms_norm over a sharded axis with one device in f64: values, gradients and
-- second gradients. Tries many layouts, weights, and distances between the shards of a row. Also checks the number of
-- bytes moved.
local tap = dofile("t/lib/tap.lua")
rille.manual_seed(tap.seed(7))

local ONE = rille.placement("cpu", {0})
local function line(p) return rille.placement("cpu", tap.ranks(p)) end
local square = rille.placement("cpu", {{0, 1}, {2, 3}})
local function home(x) return x:to_global{placement = ONE, sbp = "B"}:to"f64" end

-- ---- layouts ----

local layouts = {
  {line(2), "S(1)"}, {line(3), "S(1)"}, {line(4), "S(1)"}, {line(8), "S(1)"}, {square, {"S(1)", "S(1)"}},
  {square, {"S(0)", "S(1)"}}, {square, {"S(1)", "S(0)"}}, {square, {"B", "S(1)"}}, {square, {"P", "S(1)"}},
}

-- Moves x from one device to layout l. If l contains P, x is divided into addends.
local function lay(x, l)
  local sbp = type(l[2]) == "table" and l[2] or {l[2]}
  for _, s in ipairs(sbp) do
    if s == "P" then return (x * 0.5):to_global{placement = l[1], sbp = l[2]} * 2 end
  end
  return x:to_global{placement = l[1], sbp = l[2]}
end

-- ---- kinds of values of rows ----

local function ramp(rows, n) return rille.randn({rows, n}) end
local rows_of = {
  {"normal", ramp},
  {"shifted by 1e4", function(r, n) return ramp(r, n) + 1e4 end},
  {"distant shards", function(r, n) return ramp(r, n) + (rille.arange(n) // (n // 4)):to"f32" * 1000 end},
  {"one distant, constant shard", function(r, n)
    local last = rille.arange(n):ge(n - n // 4):to"f32"
    return ramp(r, n) * (1 - last) + last * 7e4
  end},
  {"small", function(r, n) return ramp(r, n) * 1e-12 end},
  {"large", function(r, n) return ramp(r, n) * 1e15 end},
  {"alike", function(r, n) return rille.ones({r, n}) * 3.7 end},
}

local function norms(op, x, w, b, slope, again, how)
  local leaf = x:detach():requires_grad_()
  local y = op == "layer_norm" and rille.layer_norm(leaf, w, b, how) or rille.rms_norm(leaf, w, how)
  local g = rille.grad((y * slope):sum(), {leaf})
  local gg = rille.grad((g * again):sum(), {leaf})
  return {home(y), home(g), home(gg)}
end

local words = {"values", "gradients", "second gradients"}
local function compare(op, what, l, rows, n, x, has_w, has_b, how, eps)
  local everywhere = type(l[2]) == "table" and {"B", "B"} or "B"
  local like = function(t) return t:to_global{placement = l[1], sbp = everywhere} end
  local slope, again = rille.randn({rows, n}), rille.randn({rows, n})
  local w, b = has_w and rille.randn({n}) or nil, has_b and rille.randn({n}) or nil
  local wide = function(t) return t and t:to"f64" end
  local want = norms(op, x:to"f64", wide(w), wide(b), slope:to"f64", again:to"f64", how)
  local base = norms(op, x, w and w:to(x.dtype), b and b:to(x.dtype), slope:to(x.dtype), again:to(x.dtype), how)
  local got = norms(op, lay(x, l), w and like(w:to(x.dtype)), b and like(b:to(x.dtype)), like(slope:to(x.dtype)),
    like(again:to(x.dtype)), how)
  for i, word in ipairs(words) do
    local size = want[i]:abs():max():item()
    local err, alone = (got[i] - want[i]):abs():max():item(), (base[i] - want[i]):abs():max():item()
    tap.ok(err <= math.max(8 * alone, 16 * eps * size), ("%s of %s, %d x %d, on %s: %s"):format(op, what, rows, n,
      tostring(lay(x, l)):match"}([^\n]*)", word), ("off by %g of %g, %g on one device"):format(err, size, alone))
  end
end

for _, l in ipairs(layouts) do
  for k, r in ipairs(rows_of) do
    for j, rows in ipairs{64, 5, 1} do
      compare("layer_norm", r[1], l, rows, 96, r[2](rows, 96), (k + j) % 2 == 0, (k + j) % 3 == 0, {}, 2 ^ -23)
    end
  end
  compare("rms_norm", "normal", l, 64, 96, ramp(64, 96), true, false, {}, 2 ^ -23)
  compare("layer_norm", "bf16", l, 64, 96, ramp(64, 96):to"bf16", true, true, {}, 2 ^ -8)
  compare("layer_norm", "f16", l, 16, 96, ramp(16, 96):to"f16", true, true, {}, 2 ^ -10)
  compare("layer_norm", "f64", l, 16, 96, ramp(16, 96):to"f64", true, true, {}, 2 ^ -52)
  compare("layer_norm", "eps 0", l, 16, 96, ramp(16, 96), true, true, {eps = 0}, 2 ^ -23)
end

-- ---- NaN and infinity do not affect other rows ----

for _, bad in ipairs{0 / 0, math.huge} do
  local x = rille.randn({8, 96})
  x = rille.where(rille.arange(8 * 96):reshape{8, 96}:eq(3 * 96 + 40), bad, x)
  local y = home(rille.layer_norm(x:to_global{placement = line(4), sbp = "S(1)"}))
  local nan = y:ne(y):to"i64":sum{axis = 1}:totable()
  for r, n in ipairs(nan) do tap.is(n, r == 4 and 96 or 0, ("NaNs of row %d, where row 4 has %g"):format(r, bad)) end
end

-- ---- normalised shapes of several dimensions ----

for _, s in ipairs{"S(1)", "S(2)", "S(0)"} do
  local x = rille.randn({8, 4, 12})
  local w, want = rille.randn({4, 12}), nil
  want = home(rille.layer_norm(x:to"f64", w:to"f64"))
  local got = home(rille.layer_norm(x:to_global{placement = line(4), sbp = s},
    w:to_global{placement = line(4), sbp = "B"}))
  tap.ok((got - want):abs():max():item() < 4e-6, "the last two of three dimensions, " .. s)
end

-- ---- moved bytes ----

-- Bytes per row that each device exchanges with the device that combines the shards. For layer_norm a device sends 9
-- and receives 7, together 16; for rms_norm it sends 4 and receives 4, together 8.
for _, p in ipairs{2, 4, 8} do
  tap.is(rille.explain(rille.layer_norm(rille.ones({1024}, {placement = line(p), sbp = "S(0)"}))).bytes, 16 * (p - 1),
    ("bytes of layer_norm of a vector on %d devices"):format(p))
  for _, rows in ipairs{1, 8, 64} do
    local x = rille.ones({rows, 1024}, {placement = line(p), sbp = "S(1)"})
    tap.is(rille.explain(rille.layer_norm(x)).bytes, 16 * (p - 1) * rows, ("bytes of layer_norm of %d rows on %d devices"):format(rows, p))
    tap.is(rille.explain(rille.rms_norm(x)).bytes, 8 * (p - 1) * rows, ("bytes of rms_norm of %d rows on %d devices"):format(rows, p))
  end
end

-- A gradient needs two sums per row, as floats. Each device sends its partial sums and receives the totals.
for _, p in ipairs{2, 4, 8} do
  local x = rille.ones({64, 1024}, {placement = line(p), sbp = "S(1)", requires_grad = true})
  local w = rille.ones({1024}, {placement = line(p), sbp = "S(0)", requires_grad = true})
  local step = rille.graph(function(s) rille.layer_norm(x * s, w, w):square():sum():backward() return x.grad, w.grad end)
  step(rille.ones({64, 1024}, {placement = line(p), sbp = "S(1)"}))
  tap.is(step:explain().bytes, 32 * (p - 1) * 64, ("bytes of layer_norm and its gradient on %d devices"):format(p))
end
tap.done()
