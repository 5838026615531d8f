-- logsumexp.lua - the logarithm of a sum of exponentials where the greatest and the logarithm take each other away:
-- what is left is within 1 ulp of what it is of the numbers given, of f32 and f64, on one device and over a split axis.
-- Exact is a sum of fixed-point exponentials of 216 bits.
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"

-- ---- numbers that are not negative: limbs of 24 bits, the integer part, in [0], first ----

local LIMBS, BASE = 9, 1 << 24

local function big(x)
  local y = {}
  for i = 0, LIMBS do
    y[i] = x // 1 | 0
    x = (x - y[i]) * BASE
  end
  return y
end

local function carried(y)
  for i = LIMBS, 1, -1 do
    y[i - 1] = y[i - 1] + (y[i] >> 24 | (y[i] < 0 and ~0 << 40 or 0))
    y[i] = y[i] & BASE - 1
  end
  return y
end

local function plus(a, b, sign)
  local y = {}
  for i = 0, LIMBS do y[i] = a[i] + (sign or 1) * b[i] end
  return carried(y)
end

local function times(a, b)
  local y = {}
  for i = 0, LIMBS + 1 do y[i] = 0 end
  for i = 0, LIMBS do
    for j = 0, LIMBS + 1 - i do y[i + j] = y[i + j] + a[i] * (b[j] or 0) end
  end
  y[LIMBS] = y[LIMBS] + (y[LIMBS + 1] >> 24)
  y[LIMBS + 1] = nil
  return carried(y)
end

local function over(a, n)
  local y, left = {}, 0
  for i = 0, LIMBS do
    left = left << 24 | a[i]
    y[i], left = left // n, left % n
  end
  return y
end

-- As a double, also of what is negative.
local function double(a)
  local y = 0.0
  if a[0] < 0 then return -double(plus(big(0), a, -1)) end
  for i = LIMBS, 0, -1 do y = y + a[i] * 2.0 ^ (-24 * i) end
  return y
end

local LN2 = big(0)
for k = 1, 216 do LN2 = plus(LN2, over(big(2.0 ^ -k), k)) end

-- e^(x - y)
local function exp(x, y)
  local k = math.max((y - x) / math.log(2) // 1 + 1 | 0, 0)
  local r = big(math.max(x, 0) + math.max(-y, 0))
  if x > 0 and y < 0 then r = plus(big(x), big(-y)) end
  for i = 0, LIMBS do r[i] = r[i] + k * LN2[i] end
  r = plus(plus(carried(r), big(math.max(-x, 0)), -1), big(math.max(y, 0)), -1)
  local sum, term, i = big(1), big(1), 1
  while double(term) > 0 do
    term = over(times(term, r), i)
    sum, i = plus(sum, term), i + 1
  end
  for _ = 1, k // 20 do sum = over(sum, 1 << 20) end
  return over(sum, 1 << k % 20)
end

-- The sum of e^(x - y) less 1; row: {x = how often}.
local function left_of(row, y)
  local all = big(0)
  for x, count in pairs(row) do
    local e = exp(x, y)
    for i = 0, LIMBS do all[i] = all[i] + count * e[i] end
  end
  return double(plus(carried(all), big(1), -1))
end

-- The result, as a double near it and what that lacks.
local function exact(row)
  local y, most, sum = 0.0, -math.huge, 0.0
  for x in pairs(row) do most = math.max(most, x) end
  for x, count in pairs(row) do sum = sum + count * math.exp(x - most) end
  y = most + math.log(sum)
  if math.abs(y) < 2.0 ^ -20 then
    y = left_of(row, 0.0)
    y = y - y * y / 2 + y ^ 3 / 3
  end
  local left = left_of(row, y)
  return y, left - left * left / 2
end

local digits = {f32 = 24, f64 = 53}
local function ulp(dtype, y)
  local e = math.floor(math.log(math.abs(y), 2))
  if 2.0 ^ e > math.abs(y) then e = e - 1 end
  return 2.0 ^ (e + 1 - digits[dtype])
end

-- ---- rows ----

local function rounded(dtype, x) return dtype == "f32" and string.unpack("<f", string.pack("<f", x)) or x end

-- n numbers whose sum of exponentials is nearly e^target: some drawn, and then those that are missing.
local function made(dtype, n, target)
  local row, left, last = {}, exp(target, 0), -math.huge
  local drawn = math.max(n - 5, 0)
  for i = 1, drawn do
    row[i] = rounded(dtype, math.log(math.random() / n))
    left = plus(left, exp(row[i], 0), -1)
  end
  for i = drawn + 1, n do
    last = rounded(dtype, math.log(double(left) * (i < n and 0.9 or 1)))
    row[i] = last
    local rest = plus(left, exp(last, 0), -1)
    if double(rest) <= 2.0 ^ -110 then -- as it is
      for j = i + 1, n do row[j] = -120.0 end
      break
    end
    left = rest
  end
  return row
end

local function counted(row)
  local count = {}
  for _, x in ipairs(row) do count[x] = (count[x] or 0) + 1 end
  return count
end

local layouts = {}
for _, ranks in ipairs{{0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}} do
  layouts[#layouts + 1] = {rille.placement("cpu", ranks), #ranks}
end

-- rows: of one length.
local function try(dtype, rows, what, worst)
  local x, want = rille.tensor(rows, {dtype = dtype}), {}
  for i, row in ipairs(rows) do want[i] = {exact(counted(row))} end
  for _, l in ipairs(layouts) do
    local y = x:to_global{placement = l[1], sbp = l[2] == 1 and "B" or "S(1)"}:logsumexp(1)
    local got = y:to_global{sbp = "B"}:to"f64":totable()
    for i, w in ipairs(want) do
      local of = math.abs(got[i] - w[1] - w[2]) / ulp(dtype, w[1])
      if of > (worst[l[2]] or {0})[1] then worst[l[2]] = {of, ("%s: %.17g, not %.17g"):format(what, got[i], w[1] + w[2])} end
    end
  end
end

local function say(dtype, worst, what)
  for _, l in ipairs(layouts) do
    local w = worst[l[2]]
    tap.ok(w[1] <= 1, ("%s, %s, on %d: within 1 ulp, %.2f"):format(what, dtype, l[2], w[1]), w[2])
  end
end

-- ---- infinities and NaN, in lines short and long beside others ----

for _, dtype in ipairs{"f32", "f64", "bf16", "f16"} do
  local inf, nan = math.huge, 0 / 0
  local lines = {{{0, inf, 1}, inf}, {{-inf, -inf, -inf}, -inf}, {{nan, 1, 2}, nan}, {{inf, -inf, 0}, inf}, {{inf, nan, 0}, nan},
    {{-inf, -7, -inf}, -7}, {{-300, -inf, -inf}, -300}, {{nan, nan, nan}, nan}, {{300, -inf, -inf}, 300}, {{-inf, nan, -inf}, nan}}
  for _, times in ipairs{1, 7, 21, 22, 500} do
    local rows, want = {}, {}
    for i, line in ipairs(lines) do
      rows[i] = table.move(line[1], 1, 3, 1, {})
      for k = 4, 3 * times do rows[i][k] = line[1][1] == line[1][1] and -inf or nan end
      want[i] = line[2]
    end
    local x, wrong = rille.tensor(rows, {dtype = dtype}), {}
    for _, l in ipairs(layouts) do
      local got = x:to_global{placement = l[1], sbp = l[2] == 1 and "B" or "S(1)"}:logsumexp(1):to_global{sbp = "B"}:to"f64":totable()
      for i, y in ipairs(want) do
        if got[i] ~= y and not (y ~= y and got[i] ~= got[i]) then wrong[#wrong + 1] = ("line %d on %d: %g, not %g"):format(i, l[2], got[i], y) end
      end
    end
    tap.is(wrong, {}, ("%s, lines of %d with infinities and NaN"):format(dtype, 3 * times))
  end
end

-- ---- a line has the same bits whatever is beside it ----

for _, dtype in ipairs{"f32", "f64"} do
  for _, n in ipairs{2, 3, 16, 17, 63, 64, 65, 300} do
    local x, wrong = rille.randn({37, n}, {dtype = dtype}), 0
    for i, y in ipairs(x:logsumexp(1):totable()) do
      if x:slice(0, i - 1, i):logsumexp(1):totable()[1] ~= y then wrong = wrong + 1 end
    end
    tap.is(wrong, 0, ("%s, each of 37 lines of %d alone"):format(dtype, n))
  end
end

math.randomseed(tap.seed(11))
for _, dtype in ipairs{"f32", "f64"} do
  local worst = {}
  for n = 2, 3000 do
    if n < 40 or n % 97 == 0 or n & n - 1 == 0 then
      local row, x = {}, rounded(dtype, -math.log(n))
      for i = 1, n do row[i] = x end
      try(dtype, {row}, n .. " equal numbers", worst)
    end
  end
  say(dtype, worst, "equal numbers")
  for _, near in ipairs(dtype == "f32" and {0.2, 1e-3, 1e-5, 1e-7, 1e-9, 1e-12} or {0.2, 1e-3, 1e-7, 1e-9, 1e-12, 1e-15, 1e-16}) do
    worst = {}
    for _, n in ipairs{6, 9, 24} do
      local rows = {}
      for i = 1, 6 do rows[i] = made(dtype, n, (i % 2 == 0 and 1 or -1) * near) end
      try(dtype, rows, n .. " numbers", worst)
    end
    say(dtype, worst, ("%g from 0"):format(near))
  end
  worst = {}
  for _, n in ipairs{1, 2, 3, 7, 20, 60, 64, 65, 200, 1500} do
    for _, shift in ipairs(n < 100 and {0, -1, -math.log(n) - 0.5, -7, 3, 11, 300, -5000} or {-math.log(n) - 0.5, 3}) do
      local x = rille.randn({4, n}, {dtype = dtype}) * 2 + shift
      try(dtype, x:to"f64":totable(), n .. " numbers drawn", worst)
    end
  end
  say(dtype, worst, "drawn")
end
tap.done()
