-- denormals.lua - tests that kernels and their references treat denormals of f32, f64 and bf16 as zeros, on every
-- thread. Denormals of f16 are kept, and the user's thread keeps its own mode.
local tap = dofile("t/lib/tap.lua")

local ONE, TWO = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1})
-- Expected results of functions of half the smallest normal number. Functions that inspect bits must treat this
-- number as zero, too, both in the vectorised loop and for the remaining elements.
local cases = {
  {"x^0.5", function(x) return x ^ 0.5 end, 0},
  {"x^-0.5", function(x) return x ^ -0.5 end, math.huge},
  {"(-x)^-0.5", function(x) return (-x) ^ -0.5 end, math.huge},
  {"(-x)^-1", function(x) return (-x) ^ -1 end, -math.huge},
  {"x^(0.5, a tensor)", function(x) return x:pow(rille.full(x.shape, 0.5, {dtype = x.dtype, placement = x.placement})) end, 0},
  {"0^x", function(x) return (x * 0) ^ x end, 1},
  {"(-2)^x", function(x) return (x * 0 - 2) ^ x end, 1},
  {"|x|", function(x) return x:abs() end, 0},
  {"|-x|", function(x) return (-x):abs() end, 0},
  {"the slope of x^1.5", function(x)
    local leaf = x:detach():requires_grad_()
    return rille.grad((leaf ^ 1.5):sum(), {leaf})
  end, 0},
  {"the sign of x", function(x) return x:sign() end, 0},
}
-- Operators that only move a number or change its sign. They must keep its bits.
local moves = {
  {"neg", function(x) return -x end, -1},
  {"where", function(x) return rille.where(x:eq(0), x, x) end, 1},
  {"flip", function(x) return x:flip{0} end, 1},
}

local function same(a, b) return a:eq(b):all():item() end

for _, place in ipairs{ONE, TWO} do
  for d, least in pairs{f32 = 2 ^ -126, f64 = 2 ^ -1022, bf16 = 2 ^ -126} do
    local x = rille.full({4099}, least, {dtype = d, placement = place, sbp = place == ONE and "B" or "S(0)"})
    local half, zero = x * 0.5, x * 0
    for _, n in ipairs{1, 7, 4099} do
      local small = rille.full({n}, least / 2, {dtype = d, placement = place, sbp = "B"})
      for _, case in ipairs(cases) do
        local y = case[2](small)
        tap.ok(y:eq(case[3]):all():item() and 1 / y[n - 1]:item() == 1 / case[3],
          ("%s is %g for x half of the smallest normal %s, %d elements on %d ranks"):format(case[1], case[3], d, n, place.size))
      end
      -- tries `moves` only in f64, because f32 cannot represent a Lua number this small
      for _, case in ipairs(d == "f64" and moves or {}) do
        tap.ok(case[2](small)[n - 1]:item() == case[3] * least / 2, ("%s keeps a denormal, %d of %s"):format(case[1], n, d))
      end
    end
    local all = (" of %s on %d ranks"):format(d, place.size)
    tap.ok(same(half * 4, zero), "half of the smallest normal number is 0" .. all)
    tap.ok((half:sum() + 0):item() == 0, "a sum of denormals is 0" .. all)
    tap.ok(same(x * 2, x + x) and not same(x, zero), "the smallest normal number is kept" .. all)
  end
end

-- In f16, 2^-24 is the smallest denormal; it must be kept.
local small = rille.full({33}, 2 ^ -24, {dtype = "f16"})
tap.ok((small * 3):sum():item() == 99 * 2 ^ -24, "the smallest numbers of f16 are added up exactly")
tap.ok(same(small:to"f32", rille.full({33}, 2 ^ -24)), "the smallest numbers of f16 keep their value in f32")

-- Checks that the user's thread keeps denormals.
tap.ok(2 ^ -1022 / 2 > 0 and 2 ^ -1022 / 2 * 2 == 2 ^ -1022, "Lua's numbers are not flushed")

tap.done()
