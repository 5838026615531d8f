-- edges.lua - tests extreme numbers as operands: sums of terms of very different size, norms of NaN, second gradients
-- far from 0, logarithms of tiny numbers, results near 0.
local tap = dofile("t/lib/tap.lua")

-- ---- sums of columns are computed in f64, for any number of columns ----

for _, columns in ipairs{1, 2, 3, 40, 63, 64, 65, 1029} do
  local x = rille.tensor{{2 ^ 24}, {1}, {1}, {-3}, {1}}:expand{5, columns}:clone()
  tap.is(x:sum{axis = 0}:min():item(), 2.0 ^ 24, ("sum of %d columns: small terms beside a large term count"):format(columns))
  tap.is(x:slice(0, 0, 3):sum{axis = 0}:min():item(), 2.0 ^ 24 + 2, "the same with fewer rows")
  local big = rille.full({4, columns}, 3e38)
  big[{{2, 4}}] = -3e38
  tap.is(big:sum{axis = 0}:abs():max():item(), 0.0, "terms whose partial sums overflow cancel")
  tap.is(rille.tensor{{1}, {2 ^ -30}}:expand{2, columns}:clone():sum{axis = 0, dtype = "f64"}:max():item(), 1 + 2 ^ -30, "the sum in f64")
end

-- ---- a NaN reaches all elements of its own row, and no other row ----

for _, dtype in ipairs{"f32", "f64", "bf16", "f16"} do
  for _, columns in ipairs{4, 8, 33, 1030} do
    local x = rille.ones({2, columns}, {dtype = dtype})
    x[{{0, 1}, {2, 3}}] = 0 / 0
    for _, norm in ipairs{"rms_norm", "layer_norm", "softmax", "log_softmax", "logsumexp", "sum", "var"} do
      local y = (x[norm](x, norm:find("norm") and {} or {axis = 1}) * 1):reshape{2, -1}
      local odd = y:ne(y):to("i64"):sum{axis = 1}:totable()
      tap.ok(odd[1] == y.shape[2] and odd[2] == 0, ("%s of %s, %d columns: NaN fills its row and no other"):format(norm, dtype, columns))
    end
  end
end

-- ---- rows whose squares overflow f32 ----

for _, dtype in ipairs{"f32", "bf16"} do
  for _, columns in ipairs{4, 17, 64, 1500} do
    for _, huge in ipairs{2 ^ 65, 2 ^ 100, -2 ^ 120} do
      local x = rille.full({3, columns}, 0.5, {dtype = "f64"})
      x[{{1, 2}, {columns - 2, columns - 1}}] = huge
      local g = (rille.arange(3 * columns, {dtype = "f64"}):reshape{3, columns} % 7) - 3
      for _, norm in ipairs{"rms_norm", "layer_norm"} do
        local function of(kind)
          local t = x:to(kind):detach():requires_grad_(true)
          local y = t[norm](t)
          return y:to("f64"), rille.grad((y * g:to(kind)):sum(), {t})[1]:to("f64") * math.abs(huge)
        end
        local y, dx = of(dtype)
        local want, wanted = of("f64")
        local off, bend = (y - want):abs():max():item(), ((dx - wanted):abs() / (wanted:abs():max())):slice(0, 1, 2):max():item()
        local allowed = (dtype == "bf16" and 2 ^ -7 or 1e-5) * want:abs():max():item()
        tap.ok(off <= allowed and bend <= (dtype == "bf16" and 2e-2 or 1e-5),
          ("%s of %s, %d columns, one of %g: off by %g, the gradient by %g"):format(norm, dtype, columns, huge, off, bend))
      end
    end
  end
end

-- ---- norms with eps = 0 of rows whose squares underflow in f32 ----

for _, dtype in ipairs{"f32", "bf16"} do
  for _, columns in ipairs{3, 17, 64, 1500} do
    for _, least in ipairs{2 ^ -50, 2 ^ -66, 2 ^ -90, 2 ^ -110} do
      local x = ((rille.randn({3, columns}) + 2) * least):to(dtype)
      local g = rille.randn({3, columns}):to(dtype)
      for _, norm in ipairs{"rms_norm", "layer_norm"} do
        local function of(kind)
          local t, w = x:to(kind):detach():requires_grad_(), rille.ones({columns}, {dtype = kind}):requires_grad_()
          local y = t[norm](t, w, {eps = 0})
          local dx, dw = rille.grad((y * g:to(kind)):sum(), {t, w})
          return {y, dx:to"f64" * least, dw}
        end
        local got, want = of(dtype), of("f64")
        for i, part in ipairs{"the value", "the gradient", "the gradient of the weight"} do
          local err, size = (got[i]:to"f64" - want[i]):abs():max():item(), want[i]:abs():max():item()
          tap.ok(err <= size * (dtype == "bf16" and 2 ^ -8 or 2 ^ -20),
            ("%s of %s, %d columns near %g: %s"):format(norm, dtype, columns, least, part), ("off by %g of %g"):format(err, size))
        end
      end
    end
  end
end

-- ---- losses that fit into f32, although the sum of the row's logits does not ----

for _, columns in ipairs{3, 17, 1500} do
  for _, most in ipairs{3e38, 1e38, 3e37} do
    local at = rille.arange(columns):reshape{1, columns} % 3
    local x = rille.where(at:eq(1), -most, rille.where(at:eq(0), most, 0.0)):to"f32":expand{2, columns}:clone()
    local y = rille.tensor({0, columns - 1 - (columns - 1) % 3}, {dtype = "i64"})
    for _, smoothing in ipairs{0, 0.1, 0.25} do
      local options = {reduction = "none", label_smoothing = smoothing}
      local got, want = x:cross_entropy(y, options):to"f64", x:to"f64":cross_entropy(y, options)
      tap.ok((got - want):abs():le(want:abs() * 2 ^ -20):all():item(),
        ("cross_entropy, smoothed by %g, of %d logits of %g"):format(smoothing, columns, most), tostring(got))
    end
  end
end

-- ---- the second gradient of gelu ----

-- Returns gelu''(x) in a dtype and form.
local function curve(x, dtype, form)
  local t = rille.tensor(x, {dtype = dtype, requires_grad = true})
  local g = rille.grad(t:gelu{approximate = form}:sum(), {t})
  return rille.grad(g:sum(), {t})[0] or rille.grad(g:sum(), {t})
end
local far = {17, 22.5, 41, 300, 6e4, -17, -300, -6e4}
local near = {-5, -3.421875, -2.875, -1, -0.5, 0, 0.25, 1, 2.875, 3.421875, 4.5}
for _, form in ipairs{"none", "tanh"} do
  local exact = curve(near, "f64", form)
  for _, dtype in ipairs{"f32", "f64", "bf16", "f16"} do
    tap.is(curve(far, dtype, form):abs():max():item() < 1e-30, true, ("gelu'' by %s of %s is 0 far out"):format(form, dtype))
    tap.is(curve({1 / 0, -1 / 0}, dtype, form):abs():max():item() < 1e-30, true, "gelu'' at infinity is 0")
    local one = curve({0 / 0}, dtype, form):item()
    tap.ok(one ~= one, "gelu'' of NaN is NaN")
    local allowed = dtype == "bf16" and 2 ^ -8 or dtype == "f16" and 2 ^ -10 or 2e-6
    local off = ((curve(near, dtype, form):to("f64") - exact):abs() - exact:abs() * allowed):max():item()
    tap.ok(off <= (dtype == "f16" and 1e-6 or 2e-7), ("gelu'' by %s of %s is exact to its dtype, off by %g"):format(form, dtype, off))
  end
end
tap.is(curve({1e9, 2e19, -3e38}, "f32", "tanh"):abs():max():item(), 0.0, "gelu'' is 0 where x^3 overflows f32")

-- ---- subnormal numbers count as zero ----

local logs = rille.tensor({8.75e-309, -8.75e-309, 4e-320, 1e-300}, {dtype = "f64"}):log():totable()
tap.ok(logs[1] == -math.huge and logs[2] == -math.huge and logs[3] == -math.huge and math.abs(logs[4] + 690.7755) < 1e-3,
  "f64: the logarithm of a subnormal number is that of 0")

-- ---- logsumexp near 0 ----

rille.manual_seed(tap.seed(7))
local FOUR = rille.placement("cpu", {0, 1, 2, 3})
local function ulps(moved, sbp, what, exact)
  local placed = sbp and moved:to_global{placement = FOUR, sbp = sbp} or moved
  local got, want = placed:logsumexp{axis = 1}:to("f64"):totable(), (exact or moved:to("f64"):logsumexp{axis = 1}):totable()
  local worst = 0
  for i = 1, #got do
    -- one unit in the last place of the expected result, but at least 2^-48
    local unit = 2 ^ (math.max(-25, math.floor(math.log(math.abs(want[i]), 2))) - 23)
    worst = math.max(worst, math.abs(got[i] - want[i]) / unit)
  end
  tap.ok(worst <= 1, ("logsumexp of %s: within 1 ulp of its result or 2^-48, %.2f"):format(what, worst))
end
-- One entry of each row is near 0. The sum s of the other entries' exponentials is small, so the expected result is
-- that entry plus log(1 + s) = s - s^2 / 2 + s^3 / 3.
for _, columns in ipairs{2, 3, 10, 64, 1500} do
  local first = rille.one_hot(rille.randint(0, columns, {400}), columns):eq(1)
  local near = -(rille.randn({400, 1}) * 3 - 30):exp()
  local x = rille.where(first, near, rille.randn({400, columns}) * 2 - 30)
  local s = rille.where(first, 0, x:to"f64":exp()):sum{axis = 1}
  ulps(x, nil, ("%d columns, one near 0"):format(columns), near:to"f64":squeeze(1) + (s - s * s / 2 + s * s * s / 3))
end
for _, columns in ipairs{1, 2, 3, 10, 64, 300, 1500} do
  local x = rille.randn({400, columns}) * 2
  for _, shift in ipairs{0, -1, -math.log(columns), -7} do
    local what = ("%d columns, moved by %g"):format(columns, shift)
    ulps(x + shift, nil, what)
    ulps(x + shift, "S(1)", what .. ", split over four ranks")
  end
end

-- ---- the remainder of a division by infinity does not depend on neighbouring elements ----

local INF = math.huge
for _, dtype in ipairs{"f32", "f64", "bf16", "f16"} do
  local a = {1, 5, -1, 0, -7}
  local want = {{INF, {1, 5, INF, 0, INF}}, {-INF, {-INF, -INF, -1, 0, -7}}}
  for _, n in ipairs{1, 5, 64, 1000} do
    local x = rille.tensor(a, {dtype = dtype}):expand{n, 5}:clone()
    for _, case in ipairs(want) do
      local by, left = case[1], rille.tensor(case[2], {dtype = dtype})
      local what = ("%s{%d, 5} %% %s"):format(dtype, n, by)
      tap.ok((x % by):eq(left):all():item(), what .. ", a number")
      tap.ok((x % rille.full({n, 5}, by, {dtype = dtype})):eq(left):all():item(), "a tensor")
      tap.ok((x % rille.full({5}, by, {dtype = dtype})):eq(left):all():item(), "a row")
      tap.ok(((x * 2) % by * 1):eq(rille.tensor({2, 10, -2, 0, -14}, {dtype = dtype}) % by):all():item(), "in a chain")
      local mixed = rille.tensor({by, 3, by, 3, by}, {dtype = dtype})
      tap.ok((x % mixed):eq(rille.tensor({case[2][1], 2, case[2][3], 0, case[2][5]}, {dtype = dtype})):all():item(), "a mix of infinities and numbers")
    end
  end
end

-- ---- the gradient of c ^ x with respect to x, where c is a Lua number, is as exact as the dtype allows ----

for _, case in ipairs{{"f64", 1e-14}, {"f32", 1e-6}, {"bf16", 2 ^ -7}, {"f16", 2 ^ -10}} do
  local dtype, eps = case[1], case[2]
  for _, base in ipairs{3, .1, 1, dtype == "f64" and 1e300 or 1e4, dtype == "f64" and 1e-60 or 1e-4} do
    local x = rille.tensor({1, 2, .5, 0, -1}, {dtype = dtype}) / 64
    local leaf = x:detach():requires_grad_()
    local got = rille.grad(rille.pow(base, leaf):sum(), {leaf}):to"f64":totable()
    local worst = 0
    for i, e in ipairs(leaf:to"f64":totable()) do
      local want = base ^ e * math.log(base)
      worst = math.max(worst, want == 0 and math.abs(got[i]) or math.abs(got[i] / want - 1))
    end
    tap.ok(worst <= eps, ("%s: the gradient of %g^x, off by %.2g"):format(dtype, base, worst))
  end
end
local at_nan = rille.tensor({0 / 0, 1}, {requires_grad = true})
tap.is(rille.grad(rille.pow(1, at_nan):sum(), {at_nan}):eq(0):sum():item(), 2, "the gradient of 1^x is 0, also at NaN")
local at_zero = rille.tensor({0, 2, -1}, {requires_grad = true})
tap.is(rille.grad(rille.pow(0, at_zero):slice(0, 0, 2):sum(), {at_zero}):slice(0, 0, 2):eq(0):sum():item(), 2, "the gradient of 0^x is 0 at x >= 0")

-- ---- gradients where an operand or a bound is NaN. The numbers are PyTorch's; dy = 1, 2, 3 ... ----

local function pick(list, n) return rille.tensor(tap.list(#list, function(i) return list[i][n] end), {requires_grad = true}) end
local function slopes(y, leaves)
  local grads = {rille.grad((y * rille.arange(1, y.shape[1] + 1, {dtype = "f32"})):sum(), leaves)}
  return tap.list(#grads, function(i)
    return table.concat(tap.list(y.shape[1], function(k) return ("%g"):format(grads[i][k - 1]:item()) end), " ")
  end)
end
do
  local nan, combined, paired, pairs_of = 0 / 0, {}, {}, {}
  for _, x in ipairs{nan, -1, 1, 5} do
    for _, low in ipairs{nan, 0, 3} do
      for _, high in ipairs{nan, 2} do
        if x == x or low ~= 3 then combined[#combined + 1] = {x, low, high} end
      end
    end
    for _, bound in ipairs{nan, 0} do paired[#paired + 1] = {x, bound} end
  end
  local x, low, high = pick(combined, 1), pick(combined, 2), pick(combined, 3)
  tap.is(slopes(x:clamp(low, high), {x, low, high}), {"1 2 3 4 5 6 0 0 0 0 11 12 13 14 0 0 17 0 19 0 21 0",
    "0 0 0 0 0 0 0 8 0 0 0 0 0 0 0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0 0 10 0 0 0 0 0 16 0 0 0 20 0 22"}, "clamp between tensors")
  local y, bound = pick(paired, 1), pick(paired, 2)
  tap.is(slopes(y:clamp(bound), {y, bound}), {"1 2 3 0 5 6 7 8", "1 2 3 4 5 0 7 0"}, "clamp by a tensor from below")
  tap.is(slopes(y:clamp(nil, bound), {y, bound}), {"1 2 3 4 5 0 7 0", "1 2 3 0 5 6 7 8"}, "clamp by a tensor from above")
  local z = rille.tensor({nan, -1, 1, 5}, {requires_grad = true})
  for _, case in ipairs{{nan, nan, "0 0 0 0"}, {nan, 2, "0 0 0 0"}, {nan, nil, "0 0 0 0"}, {0, nan, "0 0 0 0"}, {0, 2, "0 0 3 0"},
    {0, nil, "0 0 3 4"}, {nil, nan, "0 0 0 0"}, {nil, 2, "0 2 3 0"}} do
    tap.is(slopes(z:clamp(case[1], case[2]), {z}), {case[3]}, ("clamp between the numbers %s and %s"):format(case[1], case[2]))
  end
  for _, a in ipairs{nan, 1, 2} do
    for _, b in ipairs{nan, 1, 2} do pairs_of[#pairs_of + 1] = {a, b} end
  end
  local a, b = pick(pairs_of, 1), pick(pairs_of, 2)
  local lesser, greater = "1 2 3 4 2.5 6 7 0 4.5", "1 2 3 4 2.5 0 7 8 4.5"
  tap.is(slopes(a:minimum(b), {a, b}), {lesser, greater}, "minimum: an operand beside NaN has the gradient, too")
  tap.is(slopes(a:maximum(b), {a, b}), {greater, lesser}, "maximum: an operand beside NaN has the gradient, too")
  for name, wants in pairs{max = {"0 6 0", "2 2 2", "3 0 3", "0 3 3"}, min = {"0 6 0", "2 2 2", "3 0 3", "6 0 0"}} do
    for i, row in ipairs{{1, nan, 3}, {nan, nan, nan}, {nan, 2, nan}, {1, 2, 2}} do
      local leaf = rille.tensor(row, {requires_grad = true})
      local got = rille.grad(leaf[name](leaf) * 6, {leaf}):totable()
      tap.is(("%g %g %g"):format(got[1], got[2], got[3]), wants[i], ("%s: the gradient is shared by its elements, row %d"):format(name, i))
    end
  end
end

-- ---- integers become 16-bit floats by one rounding ----

for _, case in ipairs{{"bf16", 8}, {"f16", 11}} do
  local dtype, digits = case[1], case[2]
  for bits = digits + 2, dtype == "f16" and 16 or 63 do
    local unit = 1 << bits - digits
    local low = (1 << bits - 1) + 2 * unit
    local half = unit // 2
    for _, over in ipairs{{0, 0}, {half, 0}, {half + 1, 1}, {half - 1, 0}, {unit + half, 2}, {unit + half - 1, 1}} do
      local v, want = low + over[1], (low + over[2] * unit) * 1.0
      for _, from in ipairs(bits < 32 and {"i64", "i32"} or {"i64"}) do
        local x = rille.tensor({v, -v, v}, {dtype = from})
        local y = x:to(dtype):to"f64":totable()
        if y[1] ~= want or y[2] ~= -want then
          tap.ok(false, ("%s to %s: %d is %.17g, not %.17g"):format(from, dtype, v, y[1], want))
        end
        local given = rille.tensor({v}, {dtype = dtype}):to"f64":item()
        if given ~= want then tap.ok(false, ("%s of %d is %.17g, not %.17g"):format(dtype, v, given, want)) end
      end
    end
  end
  tap.ok(true, dtype .. " of an integer is rounded once")
end
tap.is(rille.tensor({(1 << 60) + (1 << 36) + 1}):item(), 2.0 ^ 60 + 2 ^ 37, "f32 of a Lua integer is rounded once")

-- ---- second gradients of prod, with any number of zeros ----

local function product_of(x, skip)
  local p = 1
  for j, v in ipairs(x) do
    if not skip[j] then p = p * v end
  end
  return p
end
local LINES = {{2, 1, 3, 5}, {2, 0, 3, 5}, {2, 0, 0, 5}, {0, 0, 0, 5}, {0, 0, 0, 0}, {-0.0, 4, -3, 1}}
local H = {1, 10, 100, 1000}
for _, dtype in ipairs{"f32", "f64"} do
  for _, sbp in ipairs{false, "B", "S(0)", "S(1)"} do
    for axis = 0, 1 do
      local x = rille.tensor(LINES, {dtype = dtype})
      if axis == 0 then x = x:transpose(0, 1):clone() end
      local leaf = sbp and x:to_global{placement = FOUR, sbp = sbp}:detach():requires_grad_() or x:detach():requires_grad_()
      local h = rille.tensor(H, {dtype = dtype}):reshape{axis == 0 and 4 or 1, axis == 0 and 1 or 4}:expand(x.shape):clone()
      if sbp then h = h:to_global{placement = FOUR, sbp = sbp} end
      local g = rille.grad(leaf:prod{axis = axis}:sum(), {leaf})
      local gg = rille.grad((g * h):sum(), {leaf})
      local function rows(t)
        t = t:to_global{placement = rille.placement("cpu", {0}), sbp = "B"}:to"f64"
        return (axis == 0 and t:transpose(0, 1) or t):totable()
      end
      local first, second = rows(g), rows(gg)
      for l, line in ipairs(LINES) do
        local good = true
        for k = 1, 4 do
          local want, along = product_of(line, {[k] = true}), 0
          for j = 1, 4 do
            if j ~= k then along = along + H[j] * product_of(line, {[j] = true, [k] = true}) end
          end
          good = good and math.abs(first[l][k] - want) <= 1e-6 * math.abs(want)
            and math.abs(second[l][k] - along) <= 1e-6 * math.abs(along)
        end
        tap.ok(good, ("%s %s, axis %d, {%s}: %s; %s"):format(dtype, sbp or "one device", axis, table.concat(line, ", "),
          table.concat(first[l], " "), table.concat(second[l], " ")))
      end
    end
  end
end
local all = rille.tensor({{2, 0}, {3, 5}}, {dtype = "f64", requires_grad = true})
local slope = rille.grad((rille.grad(all:prod(), {all}) * rille.tensor({{1, 10}, {100, 1000}}, {dtype = "f64"})):sum(), {all})
tap.is(table.concat(slope:reshape{4}:totable(), " "), "150.0 7015.0 100.0 60.0", "the second gradient of prod over both axes")

-- ---- lists of tensors that are longer than one call accepts ----

for _, n in ipairs{255, 256, 257, 600, 1100} do
  for _, axis in ipairs{0, 1, -1} do
    for name, size in pairs{concat = 1, cat = 2, stack = 0} do
      local list, want = {}, {}
      for i = 1, n do
        local shape = size == 0 and {3} or axis == 0 and {size, 3} or {3, size}
        list[i] = rille.full(shape, i, {dtype = i % 2 == 0 and "i64" or "i32"})
        for _ = 1, math.max(size, 1) do want[#want + 1] = i end
      end
      local y = rille[name](list, axis)
      local first = axis == 0 and y[{{}, 2}] or y[2]
      tap.is({y.dtype, first:totable()}, {"i64", want}, ("%s of %d tensors along axis %d"):format(name, n, axis))
    end
  end
end
local leaf = rille.arange(600, {dtype = "f64"}):detach():requires_grad_()
local long = rille.stack(leaf:split(1), 0):reshape{-1}
tap.is(rille.grad((long * long):sum(), {leaf}):totable(), (leaf:detach() * 2):totable(), "the gradient of a long stack")
tap.fails(function() rille.stack({rille.zeros(2), rille.zeros(3)}) end, {"same shape"}, "stack refuses other shapes")

tap.done()
