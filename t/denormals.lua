-- denormals.lua - numbers below the smallest of full precision are zeros in what is computed, in every kernel and its
-- reference, on every thread; those of f16 are not, and the mode stays where kernels compute.
local tap = dofile("t/tap.lua")
local rille = require "rille"

local ONE, TWO = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1})
local function same(a, b) return a:eq(b):all():item() end

for _, place in ipairs{ONE, TWO} do
  for d, least in pairs{f32 = 2 ^ -126, f64 = 2 ^ -1022, bf16 = 2 ^ -126} do
    local x = rille.full({4099}, least, {dtype = d, placement = place, sbp = place == ONE and "B" or "S(0)"})
    local half, zero = x * 0.5, x * 0
    local all = (" of %s on %d ranks"):format(d, place.size)
    tap.ok(same(half * 4, zero), "half of the smallest ordinary number is 0" .. all)
    tap.ok((half:sum() + 0):item() == 0, "a sum of such is 0" .. all)
    tap.ok(same(x * 2, x + x) and not same(x, zero), "the smallest ordinary number is none" .. all)
  end
end

-- f16: 2^-24 is the smallest, and stays.
local small = rille.full({33}, 2 ^ -24, {dtype = "f16"})
tap.ok((small * 3):sum():item() == 99 * 2 ^ -24, "the smallest numbers of f16 are added up exactly")
tap.ok(same(small:to"f32", rille.full({33}, 2 ^ -24)), "and are themselves as f32")

-- The user's own thread computes as before.
tap.ok(2 ^ -1022 / 2 > 0 and 2 ^ -1022 / 2 * 2 == 2 ^ -1022, "Lua's numbers are not flushed")

tap.done()
