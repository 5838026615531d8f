-- topk.lua - tests topk of short and long rows in every dtype: best values first, NaN before all numbers, equal
-- values in order of position. Tries both directions, repeated values, signed zeros and infinities.
local tap = dofile("t/lib/tap.lua")
rille.manual_seed(tap.seed(3))

local SIZES, ROWS = {1, 2, 7, 8, 16, 63, 64, 127, 128, 129, 300}, 5
local dtypes = {"f32", "f64", "bf16", "f16", "i64", "i32", "u8"}

local function drawn(dtype, n)
  if dtype:find"^[iu]" then return rille.randint(0, 9, {ROWS, n}):to(dtype) end
  local x = (rille.randn({ROWS, n}) * 4):round() / 2 -- multiples of 1/2, so that many values are equal
  local odd, which = rille.randint(0, 40, {ROWS, n}), {0 / 0, 1 / 0, -1 / 0, -0.0, 0.0}
  for i, v in ipairs(which) do x = rille.where(odd:eq(i), v, x) end
  return x:to(dtype)
end

local function order(row, largest)
  local at = tap.list(#row, function(i) return i end)
  local function rank(v) return v ~= v and math.huge or v, v ~= v and 1 or 0 end
  table.sort(at, function(i, j)
    local a, a_nan = rank(row[i])
    local b, b_nan = rank(row[j])
    if a_nan ~= b_nan then return (a_nan > b_nan) == largest end
    if a ~= b then return (a > b) == largest end
    return i < j
  end)
  return at
end

for _, dtype in ipairs(dtypes) do
  for _, n in ipairs(SIZES) do
    local x = drawn(dtype, n)
    local rows = x:totable()
    for _, largest in ipairs{true, false} do
      for _, k in ipairs{1, 2, 3, 8, 9, n} do
        if k <= n then
          local value, at = x:topk(k, {largest = largest})
          local wrong, values, places = 0, value:totable(), at:totable()
          for r, row in ipairs(rows) do
            for p, want in ipairs(order(row, largest)) do
              if p > k then break end
              local v = values[r][p]
              if places[r][p] ~= want - 1 or not (v == row[want] or v ~= v and row[want] ~= row[want]) then wrong = wrong + 1 end
            end
          end
          tap.is(wrong, 0, ("the %d %s of %d %s"):format(k, largest and "greatest" or "least", n, dtype))
        end
      end
    end
  end
end
tap.done()
