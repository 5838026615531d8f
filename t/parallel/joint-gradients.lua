-- joint-gradients.lua - tests that the gradients of large weights are computed once for all micro-batches.
--
-- A lookup and a linear layer have weights of 1 MiB. Values are small integers, so sums have the same bits in any order.

local tap = dofile("t/lib/tap.lua")
local VOCAB <const>, WIDTH <const> = 1024, 256

local function integers(size, seed, placement, sbp)
  rille.manual_seed(seed)
  return rille.randint(-2, 3, size):to("f32"):detach():to_global{placement = placement, sbp = sbp}
end

-- Returns the gradients of a step and its plan. places: placements of lookup and linear layer.
local function gradients(places, pieces, rows, sbp, options)
  local table_ = integers({VOCAB, WIDTH}, 1, places[1], "B"):detach():requires_grad_(true)
  local weight = integers({WIDTH, VOCAB}, 2, places[2], "B"):detach():requires_grad_(true)
  local ids = rille.arange(4 * rows):reshape{4, rows} * 7 % 11
  local step = rille.graph(function(x)
    local h = x:embedding(table_):to_global{placement = places[2], sbp = places[1] ~= places[2] and "B" or sbp}
    return tap_backward(h:matmul(weight):relu():sum())
  end, {micro_batches = pieces, memory_limit = options and options.memory_limit, schedule = options and options.schedule})
  step(ids:to_global{placement = places[1], sbp = sbp})
  return {table_.grad, weight.grad}, tostring(step:plan())
end

local function same(found, want)
  for k = 1, 2 do
    if (found[k] - want[k]):abs():sum():item() ~= 0 or want[k]:abs():sum():item() == 0 then return false end
  end
  return true
end

local one, two = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1})
local stages = {one, rille.placement("cpu", {1})}
local cases = {
  {"one device", {one, one}, "B"},
  {"data parallel", {two, two}, "S(0)", 2},
  {"replicated", {two, two}, "B"},
  {"two stages", stages, "B", schedules = {"1f1b", "zb-h1", "gpipe"}},
}
for _, case in ipairs(cases) do
  for _, schedule in ipairs(case.schedules or {"1f1b"}) do
    local want = gradients(case[2], 1, 2, case[3])
    for _, pieces in ipairs(case[4] and {case[4]} or {2, 4}) do
      local found, plan = gradients(case[2], pieces, 2, case[3], {schedule = schedule})
      local name = ("%s, %s, %d micro-batches"):format(case[1], schedule, pieces)
      tap.ok(same(found, want), name .. ": the gradients are those of one batch")
      tap.ok(plan:find("append", 1, true) and not plan:find("contract+accumulate", 1, true),
        name .. ": each gradient is computed once", plan)
    end
  end
end

tap.group("a weight with two uses has one gradient", function()
  local function tied(pieces)
    local weight = integers({VOCAB, WIDTH}, 3, one, "B"):detach():requires_grad_(true)
    local ids = rille.arange(8):reshape{4, 2}:to_global{placement = one, sbp = "B"} * 7 % 11
    local step = rille.graph(function(x)
      return tap_backward(x:embedding(weight):matmul(weight:transpose(0, 1)):relu():sum())
    end, {micro_batches = pieces})
    step(ids)
    return {weight.grad, weight.grad}, tostring(step:plan())
  end
  local want = tied(1)
  for _, pieces in ipairs{2, 4} do
    local found, plan = tied(pieces)
    tap.ok(same(found, want), pieces .. " micro-batches: the gradient is that of one batch")
    tap.ok(plan:find("contract+index_add_to", 1, true), "and is computed once", plan)
  end
end)

-- Returns the difference between the gradients of 1 and of `pieces` micro-batches. loss: function of ids and table.
local function difference(pieces, ids, loss)
  local function gradient(n)
    local weight = integers({VOCAB, WIDTH}, 1, ids.placement, "B"):detach():requires_grad_(true)
    rille.graph(function(x) return tap_backward(loss(x, weight)) end, {micro_batches = n})(ids)
    return weight.grad
  end
  return (gradient(pieces) - gradient(1)):abs():max():item()
end

tap.group("a penalty on a looked-up table has its complete gradient", function()
  local ids = rille.arange(8):reshape{8, 1}:to_global{placement = one, sbp = "B"} * 3
  for _, pieces in ipairs{2, 4, 8} do
    tap.is(difference(pieces, ids, function(x, weight) return x:embedding(weight):relu():sum() + weight:abs():sum() end), 0.0,
      pieces .. " micro-batches: the gradient is that of one batch")
  end
end)

tap.group("shards with unequal rows", function()
  for _, sbp in ipairs{"S(1)", "S(1, unit 2)", "S(1, unit 3)", "S(1, unit 6)"} do
    local ids = (rille.arange(48):reshape{8, 6}):to_global{placement = two, sbp = sbp}
    for _, pieces in ipairs{2, 4} do
      tap.is(difference(pieces, ids, function(x, weight) return x:transpose(0, 1):embedding(weight):relu():sum() end), 0.0,
        ("ids %s, %d micro-batches: the gradient is that of one batch"):format(sbp, pieces))
    end
  end
end)

tap.group("micro-batches of a batch that is split by units", function()
  for unit, possible in pairs{[2] = "1, 2, 3, 6", [3] = "1, 2, 3, 6", [4] = "1", [6] = "1, 2, 3, 6", [12] = "1"} do
    local ids = rille.arange(12):reshape{12, 1}:to_global{placement = two, sbp = ("S(0, unit %d)"):format(unit)}
    for _, pieces in ipairs{2, 3, 4, 6, 12} do
      local function run() return difference(pieces, ids, function(x, weight) return x:embedding(weight):relu():sum() end) end
      local name = ("unit %d, %d micro-batches"):format(unit, pieces)
      if (possible .. ","):find(" " .. pieces .. ",", 1, true) then
        tap.is(run(), 0.0, name .. ": the gradient is that of one batch")
      else
        tap.fails(run, {"12 rows, which micro_batches = " .. pieces, "possible numbers: " .. possible}, name .. ": the error lists the numbers")
      end
    end
  end
end)

tap.group("gradients are summed over micro-batches", function()
  local want = gradients({one, one}, 1, 200, "B")
  local found, plan = gradients({one, one}, 2, 200, "B")
  tap.ok(same(found, want), "the gradients of long micro-batches are those of one batch")
  tap.ok(plan:find("contract+accumulate", 1, true), "if the operands take more bytes than the gradient", plan)
end)

tap.group("a memory limit", function()
  -- with 50 rows, the operands take almost as many bytes as the gradient, so sums need less memory
  for rows, sums in pairs{[2] = false, [50] = true} do
    local function within(limit) return gradients({one, one}, 2, rows, "B", {memory_limit = limit}) end
    local want = gradients({one, one}, 1, rows, "B")
    local least = tonumber(tostring(select(2, pcall(within, 1))):match("needs (%d+) bytes"))
    for limit, summed in pairs{[least] = sums, [least + (1 << 20)] = false} do
      local found, plan = within(limit)
      local name = ("%d rows, limit %d: "):format(rows, limit)
      tap.ok(same(found, want), name .. "the gradients are those of one batch")
      tap.is(plan:find("contract+accumulate", 1, true) ~= nil, summed, name .. "gradients are summed only if appended operands do not fit")
      tap.is(plan:find("append", 1, true) == nil, summed, name .. "else each gradient is computed once")
    end
    tap.fails(function() within(least - 1) end, {"needs " .. least .. " bytes"}, rows .. " rows: less than the least limit is refused")
  end
end)

tap.done()
