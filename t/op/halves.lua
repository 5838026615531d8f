-- halves.lua - tests composites of several operators in f16 and bf16. A composite must give the f32 result, rounded
-- once.
--
-- No intermediate value may overflow or be rounded, on one device or between ranks, also in gradients.
local tap = dofile("t/lib/tap.lua")

local ONE = rille.placement("cpu", {0})
local LINE, SQUARE = rille.placement("cpu", {0, 1, 2, 3}), rille.placement("cpu", {{0, 1}, {2, 3}})
local layouts = {{"one device", ONE, "B"}, {"S(0)", LINE, "S(0)"}, {"S(1)", LINE, "S(1)"}, {"2x2", SQUARE, {"S(0)", "S(1)"}}}
local ROWS, COLUMNS = 300, 240 -- a sum over 72,000 elements can exceed the largest f16

-- Operands of three kinds: with sums above 65,504, with sums near 0, and with many equal maxima.
local function grid(f) return rille.tensor(tap.rows(ROWS, COLUMNS, f)) end
local operands = {
  {"ones", grid(function() return 1 end)},
  {"large", grid(function(i, j) return 150 + (i * 7 + j * 3) % 11 end)},
  {"of both signs", grid(function(i, j) return (i * 2 > ROWS and -1000 or 1000) + (j * 2 > COLUMNS and -3 or 3) + (i * 5 + j) % 7 / 64 end)},
  {"small", grid(function(i, j) return ((i * 31 + j * 17) % 101 - 50) / 40 end)},
}

local calls = {}
for name, axis in pairs{all = {}, rows = {0}, columns = {1}} do
  local at = #axis > 0 and {axis = axis} or {}
  for _, op in ipairs{"mean", "var", "logsumexp", "max", "min"} do
    calls[op .. " of " .. name] = function(x) return x[op](x, at) end
  end
end
for _, how in ipairs{"mean", "sum", "none"} do
  calls["mse_loss, " .. how] = function(x) return x:mse_loss(x:flip{0}, {reduction = how}) end
end
for _, smoothing in ipairs{0, 0.25} do
  calls["cross_entropy, smoothing " .. smoothing] = function(x, labels)
    return x:cross_entropy(labels, {label_smoothing = smoothing})
  end
end
calls["scatter_add"] = function(x, labels) return (x * 0 - 8):scatter_add(0, labels:reshape{ROWS, 1}:expand{ROWS, COLUMNS}, x) end
local labels = tap.list(ROWS, function(i) return i * 13 % COLUMNS end)
labels = rille.tensor(labels, {dtype = "i64"})

local function home(x) return x:to_global{placement = ONE, sbp = "B"}:to"f64" end

-- Returns f(x), the gradient of the sum of f(x), and the dtype of f(x), for x in dtype d.
local function values(f, x, d, place, sbp)
  local leaf = x:to_global{placement = place, sbp = sbp}:to(d):detach():requires_grad_()
  local y = f(leaf, labels:to_global{placement = place, sbp = place == SQUARE and {"B", "B"} or "B"})
  return home(y), home(rille.grad(y:sum(), {leaf})), y.dtype
end

local eps = {f16 = 2 ^ -11, bf16 = 2 ^ -8}

-- Returns true if a and b are at most n units in the last place apart, or are the same infinity.
local function near(a, b, d, n)
  local same = a:eq(b):logical_or((a - b):abs():le(b:abs() * (n * eps[d]) + 2 ^ -24))
  return same:all():item()
end

for d in pairs(eps) do
  for _, operand in ipairs(operands) do
    local x = operand[2]:to(d):to"f32" -- the operand's values, rounded to dtype d
    for name, f in pairs(calls) do
      local want, slope = values(f, x, "f32", ONE, "B")
      want, slope = want:to(d):to"f64", slope:to(d):to"f64"
      for _, l in ipairs(layouts) do
        local y, g, dtype = values(f, x, d, l[2], l[3])
        tap.ok(dtype == d and near(y, want, d, 2), ("%s of %s in %s on %s is the f32 result rounded"):format(name, operand[1], d, l[1]))
        local most = slope:abs():max():item()
        tap.ok((g - slope):abs():max():item() <= most * eps[d] * 3 + 2 ^ -23, ("the gradient of %s of %s in %s on %s"):format(name, operand[1], d, l[1]))
      end
    end
  end
end

-- Computes norms of rows whose sum of squares overflows or underflows f16. Compares gradients and second gradients.
for d, unit in pairs(eps) do
  local LONG = 4096
  local slant, weight, again = rille.randn{3, LONG}:to(d), rille.randn{LONG}:to(d), rille.randn{LONG}:to(d)
  -- Returns gradients of a norm. scale: factor by which the elements of x were multiplied. The norm's gradient with
  -- respect to x is divided by this factor, so the weights of second gradients are multiplied by it.
  local function slopes(norm, x, scale, as, place, sbp)
    local function placed(v, to) return v:to_global{placement = place, sbp = to or sbp}:to(as):detach():requires_grad_() end
    local leaf, dy, w = placed(x), placed(slant), placed(weight, "B")
    local dx, dw = rille.grad((norm(leaf, w) * dy):sum(), {leaf, w})
    local function through(v, times, to) return rille.grad((v * placed(again * times, "B")):sum(), to) end
    local x_x, x_dy, x_w = through(dx, scale, {leaf, dy, w})
    local w_x, w_dy = through(dw, 1, {leaf, dy})
    return {dx, dw, x_x, x_dy, x_w, w_x, w_dy}
  end
  local names = {"x", "the weight", "x, of x's", "the result's, of x's", "the weight, of x's", "x, of the weight's",
    "the result's, of the weight's"}
  for _, scale in ipairs{1e-2, 1, 4.5, 300, 3000} do
    local x = (rille.randn{3, LONG} * scale):to(d)
    for name, norm in pairs{
      rms_norm = function(v, w) return v:rms_norm(w, {eps = 1e-5}) end,
      layer_norm = function(v, w) return v:layer_norm(w) end,
    } do
      local want = slopes(norm, x, scale, "f64", ONE, "B")
      for _, l in ipairs{layouts[1], layouts[3]} do
        for i, v in ipairs(slopes(norm, x, scale, d, l[2], l[3])) do
          local err, most = (home(v) - want[i]):abs():max():item(), want[i]:abs():max():item()
          tap.ok(v.dtype == d and err <= most * unit * 4 + 2 ^ -24,
            ("%s in %s of %g on %s: the gradient of %s"):format(name, d, scale, l[1], names[i]),
            ("off by %g of %g"):format(err, most))
        end
      end
    end
  end
end

-- Adds 257 ones to -256 in bf16 (2049 ones to -2048 in f16). A 16-bit float represents the total exactly, but not all
-- partial sums.
for d, n in pairs{bf16 = 256, f16 = 2048} do
  local ids, ones = rille.zeros({n + 1}, {dtype = "i64"}), rille.ones({n + 1}, {dtype = d})
  tap.is(rille.full({1}, -n, {dtype = d}):scatter_add(0, ids, ones):item(), 1.0, ("scatter_add of %s rounds once"):format(d))
end

-- Checks that a Lua number is rounded once on every path. Numbers near the middle between two 16-bit values would reveal
-- an intermediate rounding to float.
do
  local bits = {bf16 = 8, f16 = 11, f32 = 24}
  for d, n in pairs(bits) do
    local good = true
    for i = 1, 300 do
      local middle = (1 + (2 * i + 1) * 2.0 ^ -n) * (i % 2 == 0 and 1 or -1)
      for _, off in ipairs{0, 2.0 ^ -40, -2.0 ^ -40, 2.0 ^ -52} do
        local v = middle + off
        if math.abs(v) < 2 then
          local want, set = rille.tensor({v}, {dtype = "f64"}):to(d):item(), rille.zeros({1}, {dtype = d})
          set[0] = v
          good = good and rille.tensor({v}, {dtype = d}):item() == want and rille.full({1}, v, {dtype = d}):item() == want
            and set:item() == want
        end
      end
    end
    tap.ok(good, d .. ": Lua numbers are rounded once")
  end
end

-- Compares a Lua number with 16-bit tensors. The number is rounded to the tensor's dtype, so it equals every element
-- of a tensor that was filled with the number, also if the tensor is split or is the result of a chain. At a tie,
-- gradients of maximum, minimum and clamp equal those in f32.
for d in pairs(eps) do
  for _, v in ipairs{.1, -.3, 1 / 3, 1000.7, 2049, 257, -4097, 1e5, 0, .5} do
    local what = ("%s: %g"):format(d, v)
    local x = rille.full({4, 33}, v, {dtype = d})
    for _, y in ipairs{x, x:to_global{placement = LINE, sbp = "S(0)"}, (x * 2) / 2 + 0, x[0][0]} do
      for op, want in pairs{eq = true, le = true, ge = true, ne = false, lt = false, gt = false} do
        tap.is(y[op](y, v):all():item(), want, ("%s, %s"):format(what, op))
        tap.is(rille[op](v, y):all():item(), want, "the number as first operand")
      end
    end
    local function slopes(f, dtype)
      local at = rille.full({5}, v, {dtype = dtype}):detach():requires_grad_()
      return table.concat(rille.grad(f(at, dtype == "f32" and at[0]:item() or v):sum(), {at}):to"f64":totable(), " ")
    end
    for name, f in pairs{
      maximum = function(y, n) return y:maximum(n) end, minimum = function(y, n) return y:minimum(n) end,
      clamp = function(y, n) return y:clamp(n, 1e6) end, ["clamp, max"] = function(y, n) return y:clamp(-1e6, n) end,
    } do
      tap.is(slopes(f, d), slopes(f, "f32"), ("%s: the gradient of %s at a tie"):format(what, name))
    end
  end
  local step, x = rille.graph(function(y) return (y * 1):eq(.1):to"f32":sum() end), rille.full({4}, .1, {dtype = d})
  tap.is(step(x):item(), 4.0, d .. ": comparison in a compiled step")
end
tap.done()
