-- batch.lua - products with two and three batch dimensions in every order of storage: dimensions of the batch inside
-- or outside the matrices, equal in both operands or broadcast. Libraries of products find the address of each matrix
-- by their own rules for each order, and not all rules are right.
local tap = dofile("t/lib/tap.lua")

-- Returns all orders of the numbers 0 to n - 1.
local function orders(n)
  if n == 0 then return {{}} end
  local all = {}
  for _, rest in ipairs(orders(n - 1)) do
    for at = 1, n do
      local one = table.move(rest, 1, #rest, 1, {})
      table.insert(one, at, n - 1)
      all[#all + 1] = one
    end
  end
  return all
end

-- Returns a random tensor of this shape whose dimensions are stored in the given order, outermost first.
local function stored(shape, order)
  local sizes, back = {}, {}
  for i, d in ipairs(order) do sizes[i], back[d + 1] = shape[d + 1], i - 1 end
  return rille.randn(sizes):permute(back)
end

-- Returns the shape of an operand. Bit i of `broadcast`: dimension i of the batch has size 1.
local function shape_of(batch, broadcast, rows, cols)
  local shape = {}
  for i, n in ipairs(batch) do shape[i] = broadcast >> (i - 1) & 1 == 1 and 1 or n end
  shape[#shape + 1], shape[#shape + 2] = rows, cols
  return shape
end

local sizes = {{8, 4, 8}, {12, 5, 3}, {1, 4, 8}, {8, 8, 1}, {33, 40, 2}}
local worst, where, n = 0, "none", 0

-- Compares a product of f32 with that of the same values in f64.
local function compare(batch, size, a_broadcast, b_broadcast, a_order, b_order)
  local a = stored(shape_of(batch, a_broadcast, size[1], size[2]), a_order)
  local b = stored(shape_of(batch, b_broadcast, size[2], size[3]), b_order)
  local off = (a:matmul(b):to("f64") - a:to("f64"):matmul(b:to("f64"))):abs():max():item()
  n = n + 1
  if not (off <= worst) then
    worst, where = off, string.format("%s x %s, stored %s and %s", table.concat(a.shape, " "), table.concat(b.shape, " "),
      table.concat(a_order, " "), table.concat(b_order, " "))
  end
end

rille.manual_seed(1)
local two, three = orders(4), orders(5)
for _, size in ipairs(sizes) do
  for broadcast = 0, 15 do
    for i, a_order in ipairs(two) do
      if tap.share() then
        for j = 1, #two, 4 do compare({3, 2}, size, broadcast & 3, broadcast >> 2, a_order, two[(j + i + broadcast) % #two + 1]) end
      end
    end
  end
end
tap.ok(worst < 1e-4, "two batch dimensions", string.format("%g in %s", worst, where))
worst = 0
for k = 1, 3000 do
  if tap.share() then
    local broadcast = k * 7 % 64
    compare({3, 2, 4}, sizes[k % #sizes + 1], broadcast & 7, broadcast >> 3, three[k * 31 % #three + 1], three[k * 77 % #three + 1])
  end
end
tap.ok(worst < 1e-4, "three batch dimensions", string.format("%g in %s", worst, where))
tap.ok(n > 100, n .. " products")
tap.done()
