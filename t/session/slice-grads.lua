-- slice-grads.lua - tests of gradients of slices of one value. Gradients of adjacent slices must be concatenated and
-- written once, in any order of the slices. Slices that overlap, leave gaps or are sharded must give the same gradients
-- by a sum.
local tap = dofile("t/lib/tap.lua")
local rille = require "rille"

local ROWS, COLUMNS = 4, 12
local function whole(rows, cols)
  local t = {}
  for i = 1, rows do
    t[i] = {}
    for j = 1, cols do t[i][j] = (i * 5 + j * 3) % 7 - 3 end
  end
  return rille.tensor(t)
end
local weight = whole(ROWS, COLUMNS)

-- Lists of {begin, end} of columns. The loss is the sum of the slices, each weighted by its number.
local cuts = {
  {"chunks", {{0, 4}, {4, 8}, {8, 12}}, whole = true},
  {"chunks backwards", {{8, 12}, {4, 8}, {0, 4}}, whole = true},
  {"two halves", {{0, 6}, {6, 12}}, whole = true},
  {"adjacent slices that leave out the first columns", {{3, 5}, {5, 9}}},
  {"the outer ones first", {{4, 8}, {0, 4}, {8, 12}}},
  {"overlapping slices", {{0, 7}, {5, 12}}},
  {"a gap", {{0, 3}, {9, 12}}},
  {"one slice twice", {{2, 6}, {2, 6}}},
  {"an empty slice", {{0, 4}, {4, 4}, {4, 12}}},
}

local function loss(x, parts)
  local sum
  for i, p in ipairs(parts) do
    local y = (x:slice(1, p[1], p[2]) * (weight:to_global{placement = x.placement, sbp = "B"}):slice(1, p[1], p[2]) * i):sum()
    sum = sum and sum + y or y
  end
  return sum
end

local function expected(parts)
  local t, w = {}, weight:totable()
  for r = 1, ROWS do
    t[r] = {}
    for c = 1, COLUMNS do
      t[r][c] = 0
      for i, p in ipairs(parts) do
        if c > p[1] and c <= p[2] then t[r][c] = t[r][c] + i * w[r][c] end
      end
    end
  end
  return t
end

local function count(plan, name)
  local n = 0
  for line in tostring(plan):gmatch("[^\n]+") do
    if line:match("^%s+%d+%s+(%S+)") == name then n = n + 1 end
  end
  return n
end

for _, cut in ipairs(cuts) do
  local name, parts = cut[1], cut[2]
  tap.group(name, function()
    for _, n in ipairs{1, 2} do
      local ranks = {}
      for i = 1, n do ranks[i] = i - 1 end
      for _, sbp in ipairs{"B", "S(0)", "S(1)"} do
        local x = whole(ROWS, COLUMNS):to_global{placement = rille.placement("cpu", ranks), sbp = sbp}:detach():requires_grad_()
        local step = rille.graph(function() return rille.grad(loss(x, parts), {x}) end)
        tap.is(step():totable(), expected(parts), ("%s on %d"):format(sbp, n))
        if n == 1 and sbp == "B" then
          tap.is(count(step:plan(), "slice_grad") == 0 and count(step:plan(), "add") == 0, cut.whole == true,
            "written once: " .. tostring(cut.whole == true))
        end
      end
    end
  end)
end

tap.done()
