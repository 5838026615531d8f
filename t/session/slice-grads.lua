-- slice-grads.lua - tests gradients of several slices of one value. Gradients of adjacent slices must be concatenated
-- and written once, in any order of the slices. Gradients must also be right if slices overlap, leave gaps or are
-- sharded. The bytes that a plan writes must be linear in the number of slices.
local tap = dofile("t/lib/tap.lua")

local ROWS, COLUMNS = 4, 12
local function whole(rows, cols) return rille.tensor(tap.rows(rows, cols, function(i, j) return (i * 5 + j * 3) % 7 - 3 end)) end
local weight = whole(ROWS, COLUMNS)

-- Cases: lists of column ranges {begin, end}, one for each slice. The loss is the sum of all slices; slice k has
-- weight k.
local cuts = {
  {"chunks", {{0, 4}, {4, 8}, {8, 12}}, whole = true},
  {"chunks backwards", {{8, 12}, {4, 8}, {0, 4}}, whole = true},
  {"two halves", {{0, 6}, {6, 12}}, whole = true},
  {"adjacent slices that leave out the first columns", {{3, 5}, {5, 9}}},
  {"the outer ones first", {{4, 8}, {0, 4}, {8, 12}}, whole = true},
  {"overlapping slices", {{0, 7}, {5, 12}}},
  {"a gap", {{0, 3}, {9, 12}}},
  {"one slice twice", {{2, 6}, {2, 6}}},
  {"an empty slice", {{0, 4}, {4, 4}, {4, 12}}, whole = true},
  {"many overlapping slices", {{0, 9}, {1, 3}, {2, 6}, {2, 4}, {5, 12}, {2, 4}, {8, 9}}},
  {"one slice inside another, and one apart", {{0, 6}, {2, 3}, {10, 11}}},
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
      for _, sbp in ipairs{"B", "S(0)", "S(1)"} do
        local x = whole(ROWS, COLUMNS):to_global{placement = rille.placement("cpu", tap.ranks(n)), sbp = sbp}:detach():requires_grad_()
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

-- ---- the work of gradients is linear in the number of slices ----

-- Returns the bytes that the tasks of a plan write.
local function bytes_written(plan)
  local UNITS <const>, total = {B = 1, KiB = 2 ^ 10, MiB = 2 ^ 20}, 0
  for number, unit in tostring(plan):gmatch("\n%s+%d+%s+%S.-  ([%d.]+) ([KM]?i?B) ") do total = total + tonumber(number) * UNITS[unit] end
  return total
end

local loops = {
  ["x[t]"] = function(x, n) for t = 0, n - 1 do coroutine.yield(x[t]) end end,
  ["x[{{}, t}], backwards"] = function(x, n)
    local y = x:transpose(0, 1)
    for t = n - 1, 0, -1 do coroutine.yield(y[{{}, t}]) end
  end,
  split = function(x) for _, part in ipairs(x:split(1)) do coroutine.yield(part) end end,
  chunk = function(x, n) for _, part in ipairs(x:chunk(n // 2)) do coroutine.yield(part) end end,
  windows = function(x, n) for t = 0, n - 3 do coroutine.yield(x[{{t, t + 3}}]) end end,
  ["each row twice"] = function(x, n) for t = 0, 2 * n - 1 do coroutine.yield(x[t % n]) end end,
  ["each element"] = function(x, n)
    for t = 0, n - 1 do
      for c = 0, 7 do coroutine.yield(x[{t, c}]) end
    end
  end,
  ["every other row"] = function(x, n) for t = 0, n - 1, 2 do coroutine.yield(x[t]) end end,
  ["even and odd rows"] = function(x)
    for t = 0, 3 do coroutine.yield(x:slice(0, t % 2, #x, 2)) end
  end,
  ["every k-th row, for all k starts"] = function(x, n)
    for t = 0, n // 4 - 1 do coroutine.yield(x:slice(0, t, n, n // 4)) end
  end,
  ["every k-th row, for some starts, backwards and in parts"] = function(x, n)
    local k = n // 6
    for t = k - 1, 0, -2 do
      coroutine.yield(x[{{t + k, n, k}}])
      coroutine.yield(x[{{t + 3 * k, nil, -k}}])
    end
  end,
  ["rows of one chunk after the other"] = function(x)
    for _, part in ipairs(x:split(5)) do
      for t = 0, #part - 1 do coroutine.yield(part[t]) end
    end
  end,
}

-- Computes the gradient of a loss: the sum of k y^2 over the slices of `loop`, where y is slice k. Returns two
-- values: true if the gradient equals a reference that is computed element by element; and the step's plan.
local function gradient_over(loop, n)
  local x = (rille.arange(n * 8, {dtype = "f64"}):reshape{n, 8} % 13 - 6):detach():requires_grad_()
  local step = rille.graph(function()
    local total, k = 0, 0
    for part in coroutine.wrap(function() loop(x, n) end) do
      k = k + 1
      total = total + (part * part):sum() * k
    end
    return rille.grad(total, {x})
  end)
  local dx, want, k = step():totable(), {}, 0
  -- The gradient is computed element by element as the reference. At each element, the gradient of k y^2 is the sum
  -- of 2 k y over the slices that contain the element.
  local at = rille.arange(n * 8):reshape{n, 8}
  for part in coroutine.wrap(function() loop(at, n) end) do
    k = k + 1
    for _, i in ipairs(part:reshape{-1}:totable()) do want[i] = (want[i] or 0) + 2 * k * (i % 13 - 6) end
  end
  local same = true
  for i = 0, n * 8 - 1 do same = same and dx[i // 8 + 1][i % 8 + 1] == (want[i] or 0) end
  return same, step:plan()
end

for name, loop in pairs(loops) do
  local bytes = {}
  for i, n in ipairs{72, 144, 288} do
    local same, plan = gradient_over(loop, n)
    tap.ok(same, ("%s: the gradient of %d rows is that of each element"):format(name, n))
    bytes[i] = bytes_written(plan)
  end
  tap.ok(bytes[1] > 0 and bytes[2] <= 3 * bytes[1] and bytes[3] <= 3 * bytes[2],
    ("%s: plans write %d, %d and %d B for 72, 144 and 288 rows: linear"):format(name, bytes[1], bytes[2], bytes[3]))
end

tap.done()
