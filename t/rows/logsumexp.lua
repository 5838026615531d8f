-- logsumexp.lua - tests the error of logsumexp, on one device and over a sharded axis, against the bound of
-- kernels/cpu/rows/log_sums.h. The bound for f32 is one unit in the last place of the result, but at least 2^-48. For
-- f64 it is 3 units in the last place of the largest of 1, |m| and |y|, where m is the maximum of the row and y the
-- result. The reference is a compensated sum in f64, whose own error is one unit.
local tap = dofile("t/lib/tap.lua")

-- Returns m + log(sum of e^(x - m)), and m. The sum is compensated (Neumaier 1974).
local function reference(row)
  local m, sum, lost = -math.huge, 0.0, 0.0
  for _, x in ipairs(row) do m = math.max(m, x) end
  for _, x in ipairs(row) do
    local e = math.exp(x - m)
    local both = sum + e
    lost = lost + (sum >= e and sum - both + e or e - both + sum)
    sum = both
  end
  return m + math.log(sum + lost), m
end

local function ulp(digits, y) return 2.0 ^ (math.floor(math.log(math.abs(y), 2)) + 1 - digits) end

-- Returns the largest allowed error of a row with result y and maximum m.
local function bound(dtype, y, m)
  if dtype == "f32" then return math.max(y ~= 0 and ulp(24, y) or 0, 2.0 ^ -48) end
  return (3 + 1) * ulp(53, math.max(1, math.abs(m), math.abs(y)))
end

local function rounded(dtype, x) return dtype == "f32" and string.unpack("<f", string.pack("<f", x)) or x end

-- Returns n numbers whose sum of exponentials is about e^target. The last number is chosen so that the sum is
-- reached; the others are random.
local function made(dtype, n, target)
  local row, left = {}, math.exp(target)
  for i = 1, n - 1 do
    row[i] = rounded(dtype, math.log(math.random() / n))
    left = left - math.exp(row[i])
  end
  row[n] = rounded(dtype, math.log(math.max(left, 1e-30)))
  return row
end

local layouts = tap.list({{0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}}, function(ranks) return {rille.placement("cpu", ranks), #ranks} end)
local function over(x, l)
  return x:to_global{placement = l[1], sbp = l[2] == 1 and "B" or "S(1)"}:logsumexp(1):to_global{sbp = "B"}:to"f64":totable()
end

-- Computes rows of one length in each layout. Updates worst[layout], the largest error relative to the bound.
local function try(dtype, rows, what, worst)
  local x = rille.tensor(rows, {dtype = dtype})
  for _, l in ipairs(layouts) do
    for i, got in ipairs(over(x, l)) do
      local want, m = reference(rows[i])
      local of = math.abs(got - want) / bound(dtype, want, m)
      if of > (worst[l[2]] or {0})[1] then worst[l[2]] = {of, ("%s: expected %.17g, found %.17g"):format(what, want, got)} end
    end
  end
end

local function judge(dtype, worst, what)
  for _, l in ipairs(layouts) do
    local w = worst[l[2]] or {0}
    tap.ok(w[1] <= 1, ("%s, %s, on %d: within the bound"):format(what, dtype, l[2]), ("%.2f of it; %s"):format(w[1], w[2] or ""))
  end
end

-- ---- infinities and NaN, in short and long rows next to others ----

for _, dtype in ipairs{"f32", "f64", "bf16", "f16"} do
  local inf, nan = math.huge, 0 / 0
  local lines = {{{0, inf, 1}, inf}, {{-inf, -inf, -inf}, -inf}, {{nan, 1, 2}, nan}, {{inf, -inf, 0}, inf}, {{inf, nan, 0}, nan},
    {{-inf, -7, -inf}, -7}, {{-300, -inf, -inf}, -300}, {{nan, nan, nan}, nan}, {{300, -inf, -inf}, 300}, {{-inf, nan, -inf}, nan}}
  for _, times in ipairs{1, 7, 21, 22, 500} do
    local rows, wrong = {}, {}
    for i, line in ipairs(lines) do
      rows[i] = table.move(line[1], 1, 3, 1, {})
      for k = 4, 3 * times do rows[i][k] = line[1][1] == line[1][1] and -inf or nan end
    end
    local x = rille.tensor(rows, {dtype = dtype})
    for _, l in ipairs(layouts) do
      local got = over(x, l)
      for i, line in ipairs(lines) do
        local y = line[2]
        if got[i] ~= y and not (y ~= y and got[i] ~= got[i]) then wrong[#wrong + 1] = ("line %d on %d: %g, not %g"):format(i, l[2], got[i], y) end
      end
    end
    tap.is(wrong, {}, ("%s, lines of %d with infinities and NaN"):format(dtype, 3 * times))
  end
end

-- ---- the bits of a row do not depend on other rows ----

for _, dtype in ipairs{"f32", "f64"} do
  for _, n in ipairs{2, 3, 16, 17, 63, 64, 65, 300} do
    local x, wrong = rille.randn({37, n}, {dtype = dtype}), 0
    for i, y in ipairs(x:logsumexp(1):totable()) do
      if x:slice(0, i - 1, i):logsumexp(1):totable()[1] ~= y then wrong = wrong + 1 end
    end
    tap.is(wrong, 0, ("%s, each of 37 lines of %d alone"):format(dtype, n))
  end
end

-- ---- accuracy ----

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
  judge(dtype, worst, "equal numbers")
  worst = {}
  for _, near in ipairs{2, 0.2, 1e-3, 1e-5, 1e-7, 1e-9, 1e-12, 0} do
    for _, n in ipairs{6, 9, 24, 100} do
      local rows = tap.list(6, function(i) return made(dtype, n, (i % 2 == 0 and 1 or -1) * near) end)
      try(dtype, rows, ("%d numbers, %g from 0"):format(n, near), worst)
    end
  end
  judge(dtype, worst, "near 0")
  worst = {}
  for _, n in ipairs{1, 2, 3, 7, 20, 60, 64, 65, 200, 1500} do
    for _, shift in ipairs(n < 100 and {0, -1, -math.log(n) - 0.5, -7, 3, 11, 300, -5000} or {-math.log(n) - 0.5, 3}) do
      local x = rille.randn({4, n}, {dtype = dtype}) * 2 + shift
      try(dtype, x:to"f64":totable(), n .. " random numbers", worst)
    end
  end
  judge(dtype, worst, "random numbers")
  worst = {}
  -- Tries rows of equal numbers, because each addition then rounds in the same direction.
  for _, less in ipairs(dtype == "f32" and {0.1, 0.3, 0.7} or {}) do
    local m = rounded(dtype, -math.log(1 + 19999 * math.exp(-less)))
    try(dtype, {tap.list(20000, function(i) return i == 1 and m or rounded(dtype, m - less) end)}, "20000 numbers", worst)
  end
  judge(dtype, worst, "long lines near 0")
end
tap.done()
