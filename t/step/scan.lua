-- scan.lua - tests that rille.scan gives the bits of a Lua loop: eager and compiled, in every layout, in
-- micro-batches. With recomputation, or if the width is split, values are equal up to rounding, because sums are
-- added in another order. States and outputs may be nested tables. A function whose calls differ between positions
-- must be called for each position.
local tap = dofile("t/lib/tap.lua")

local BATCH <const>, WIDTH <const> = 4, 3
local function mesh(n) return rille.placement("cpu", tap.ranks(n)) end

local function body(w)
  return function(state, x)
    local h = (state.h:matmul(w) + x.a):tanh()
    return {h = h, n = {total = state.n.total + h * x.b}}, {h, last = state.n.total}
  end
end

-- Computes the same as rille.scan by a loop in plain Lua.
local function loop(fn, state, xs, axis, n)
  local first, last = {}, {}
  for t = 0, n - 1 do
    local y
    state, y = fn(state, {a = xs.a:slice(axis, t, t + 1):squeeze(axis), b = xs.b:slice(axis, t, t + 1):squeeze(axis)})
    first[t + 1], last[t + 1] = y[1], y.last
  end
  return state, {rille.stack(first, axis), last = rille.stack(last, axis)}
end

local function loss_of(state, ys, axis)
  return (state.h:sum() + state.n.total:square():mean() + (ys[1] * ys.last):mean() + ys[1]:square():mean(axis):sum())
end

-- Returns loss and gradients. how: "loop", "scan" or "recompute".
local function results(how, w, a, b, axis)
  local n = a.shape[axis + 1]
  local zero = (a:slice(axis, 0, 1):squeeze(axis) * 0):detach()
  local state, xs, ys = {h = zero, n = {total = zero}}, {a = a, b = b}, nil
  if how == "loop" then
    state, ys = loop(body(w), state, xs, axis, n)
  else
    state, ys = rille.scan(body(w), state, xs, {axis = axis, recompute = how == "recompute"})
  end
  local loss = loss_of(state, ys, axis)
  return loss, rille.grad(loss, {w, a, b})
end

local layouts = {{1, "B"}, {2, "B"}, {2, "S(0)"}, {4, "S(0)"}, {2, "S(2)"}}
for _, l in ipairs(layouts) do
  local place, sbp = mesh(l[1]), l[2]
  for _, n in ipairs{1, 2, 7, 9} do
    for axis = 0, 1 do
      local shape = axis == 0 and {n, BATCH, WIDTH} or {BATCH, n, WIDTH}
      if axis == 0 and sbp == "S(0)" then sbp = "S(1)" end
      local function made(seed, s, split)
        rille.manual_seed(seed)
        return rille.randn(s):to_global{placement = place, sbp = split}:detach():requires_grad_()
      end
      local w, a, b = made(1, {WIDTH, WIDTH}, "B"), made(2, shape, sbp), made(3, shape, sbp)
      local name = ("%d positions on axis %d, %s on %d"):format(n, axis, sbp, l[1])
      local want = tap.values(results("loop", w, a, b, axis))
      local same = sbp == "S(2)" and tap.near or tap.is
      same(tap.values(results("scan", w, a, b, axis)), want, name .. ": a loop's values and gradients")
      tap.near(tap.values(results("recompute", w, a, b, axis)), want, name .. ": those of a loop, with recomputation")
      local compiled = {}
      for _, how in ipairs{"loop", "scan", "recompute"} do
        local step = rille.graph(function() return results(how, w, a, b, axis) end)
        compiled[how] = tap.values(step())
      end
      same(compiled.scan, compiled.loop, name .. ": compiled, a loop's values and gradients")
      tap.near(compiled.recompute, compiled.loop, name .. ": compiled with recomputation, those of a loop")
      sbp = l[2]
    end
  end
end

tap.group("micro-batches", function()
  rille.manual_seed(1)
  local w = rille.randn({WIDTH, WIDTH}, {requires_grad = true})
  local x = rille.randn{8, 5, WIDTH}
  local function step(pieces, how)
    return rille.graph(function(a)
      local h = a:slice(1, 0, 1):squeeze(1) * 0
      local fn = function(s, t) s = (s:matmul(w) + t):tanh() return s, s end
      local ys
      if how == "loop" then
        local list = {}
        for t = 0, 4 do h = fn(h, a[{{}, t}]) list[t + 1] = h end
        ys = rille.stack(list, 1)
      else
        h, ys = rille.scan(fn, h, a, {axis = 1, recompute = how == "recompute"})
      end
      local loss = ys:square():mean() + h:mean()
      return loss, rille.grad(loss, {w})
    end, {micro_batches = pieces})
  end
  for _, pieces in ipairs{1, 2, 4} do
    local want = tap.values(step(pieces, "loop")(x))
    tap.is(tap.values(step(pieces, "scan")(x)), want, ("%d micro-batches: the bits of a loop"):format(pieces))
    tap.near(tap.values(step(pieces, "recompute")(x)), want, ("%d micro-batches with recomputation: a loop's values"):format(pieces))
  end
end)

tap.group("second derivatives", function()
  rille.manual_seed(1)
  local cell, x = rille.nn.LSTMCell(2, 3), rille.randn{4, 5, 2}:detach():requires_grad_()
  local function penalty(how)
    local zero = rille.zeros{4, 3}
    local s, fn = {h = zero, c = zero}, function(s, t)
      local h, c = cell(t, s.h, s.c)
      return {h = h, c = c}, nil
    end
    if how == "loop" then
      for t = 0, 4 do s = fn(s, x[{{}, t}]) end
    else
      s = rille.scan(fn, s, x, {axis = 1, recompute = how == "recompute"})
    end
    local slope = rille.grad(s.h:sum(), {x})
    return slope, rille.grad(slope:square():sum(), cell:parameters())
  end
  local want = tap.values(penalty("loop"))
  tap.near(tap.values(penalty("scan")), want, "scan: the gradient of a gradient is that of a loop")
  tap.near(tap.values(penalty("recompute")), want, "recompute: the gradient of a gradient is that of a loop")
end)

-- ---- scans of functions that call other operators, or read other values, at each position of the sequence ----

tap.group("functions whose calls differ", function()
  local x, total, list, numbers = rille.randn{5, 2, 3}, 0, nil, {n = 0}
  local w, norm = rille.randn({3}, {requires_grad = true}), rille.nn.BatchNorm1d(3)
  local double = rille.func{forward = function(_, a) return a * 2 end, backward = function(_, d) return d * 2 end}
  local functions = {
    ["counts in an upvalue"] = function(s, a) total = total + 1 s = s * w + a * total return s, s end,
    ["counts in a table"] = function(s, a) numbers.n = numbers.n + 1 s = s * w + a * numbers.n return s, s end,
    ["collects values"] = function(s, a) list[#list + 1] = s s = s * w + a + list[1] return s, s end,
    ["draws"] = function(s, a) s = s * w + a:dropout(0.5, true) return s, s end,
    ["reads a value"] = function(s, a) if a:sum():item() > 0 then s = s * w end s = s + a return s, s end,
    ["changes a variable"] = function(s, a) s = norm(s * w + a) return s, s end,
    ["has a gradient of its own"] = function(s, a) s = double(s * w) + a return s, s end,
    ["calls math.random"] = function(s, a) s = s * w + a * math.random() return s, s end,
  }
  for name, fn in tap.sorted(functions) do
    local function run(scans)
      rille.manual_seed(4)
      math.randomseed(4)
      total, list, numbers.n = 0, {}, 0
      norm.running_mean:copy_(rille.zeros{3})
      local s, ys = rille.zeros{2, 3}, {}
      if scans then
        s, ys = rille.scan(fn, s, x)
      else
        for t = 0, 4 do s, ys[t + 1] = fn(s, x[t]) end
        ys = rille.stack(ys, 0)
      end
      local loss = ys:square():sum() + s:sum()
      return {loss:item(), rille.grad(loss, {w}):totable(), norm.running_mean:totable(), total, numbers.n, #list}
    end
    tap.is(run(true), run(false), name .. ": the values of a loop")
  end
end)

-- ---- sizes of plans, memory ----

local function chain(n, recompute)
  rille.manual_seed(1)
  local w, x = rille.randn({64, 64}, {requires_grad = true}), rille.randn{n, 1, 64}
  local step = rille.graph(function()
    local h = rille.scan(function(s, t) return ((s + t):matmul(w) * 0.1):tanh():exp():log():sin() end, rille.zeros{64, 64}, x, {recompute = recompute})
    local loss = h:square():mean()
    return loss, rille.grad(loss, {w})
  end)
  local loss = step()
  return loss:item(), select(2, tostring(step:plan()):gsub("\n", "")), step:stats().devices[1].peak_memory
end
tap.group("plans", function()
  local lines, kept, less, loss, again = {}, {}, {}, {}, {}
  for i, n in ipairs{16, 32, 64} do
    loss[i], lines[i], kept[i] = chain(n, false)
    again[i], _, less[i] = chain(n, true)
  end
  tap.is({lines[2], lines[3]}, {lines[1], lines[1]}, "plans do not grow")
  tap.near(again, loss, "recomputation keeps the loss")
  tap.ok(less[3] < 0.6 * kept[3], "recomputation needs less memory", ("%d of %d"):format(less[3], kept[3]))
end)

-- ---- forms of arguments, and changes of values that the function reads ----

local total, sums = rille.scan(function(s, x) return s + x, nil end, rille.tensor(0), rille.arange(5))
tap.is({total:item(), sums == nil}, {10, true}, "an output may be absent")
local counted, list = rille.scan(function(s) return s + 1, s end, rille.tensor(0), nil, {length = 4})
tap.is({counted:item(), list:totable()}, {4, {0, 1, 2, 3}}, "without xs, the function is called `length` times")
local _, mapped = rille.scan(function(s, x) return s, x * 2 end, {}, rille.arange(3))
tap.is(mapped:totable(), {0, 2, 4}, "the state may be an empty table")
local _, long = rille.scan(function(s, x) s = s + x return s, s end, rille.tensor(0), rille.arange(600))
tap.is({long.shape[1], long[599]:item()}, {600, 599 * 300}, "600 outputs are joined")
local scale = 2
local follows = rille.graph(function(x) return (rille.scan(function(s, t) return s + t * scale end, x[0] * 0, x)) end)
local before = follows(rille.arange(4)):item()
scale = 3
tap.is({before, follows(rille.arange(4)):item()}, {12, 18}, "a compiled step follows the values that the function reads")

local s0, x4 = rille.zeros{2}, rille.ones{4, 2}
local function keep(s) return s, s end
for _, case in ipairs{
  {function() rille.scan(keep, s0) end, "length must be given"},
  {function() rille.scan(keep, s0, rille.ones{0, 2}) end, "at least 1, found 0"},
  {function() rille.scan(keep, s0, x4, {axis = 2}) end, "must have the axis 2", "f32{4, 2}"},
  {function() rille.scan(keep, s0, {x4, b = rille.ones{3, 2}}) end, "xs.b must have 4 entries along axis 0", "found 3"},
  {function() rille.scan(keep, s0, x4, {length = 5}) end, "must have 5 entries", "found 4"},
  {function() rille.scan(keep, 1, x4) end, "the state must be a tensor", "found 1"},
  {function() rille.scan(keep, s0, {x4, 3}) end, "xs.2 must be a tensor", "found 3"},
  {function() rille.scan(function(s) return s:sum() end, s0, x4) end, "expected f32{2}, found f32{}"},
  {function() rille.scan(function(s) return s:to("f64") end, s0, x4) end, "expected f32{2}, found f64{2}"},
  {function() rille.scan(function(s) return {s} end, s0, x4) end, "the state must have the same shape", "found a table"},
  {function() rille.scan(function() return {a = s0, b = s0} end, {a = s0}, x4) end, 'the state has the new key "b"'},
  {function() rille.scan(function(s, x) return s, 3 end, s0, x4) end, "the output must be a tensor", "found 3"},
  {function() rille.scan(3, s0, x4) end, "expected a function, found 3"},
  {function() rille.scan(keep, s0, x4, {recomputed = true}) end, "unknown option 'recomputed'"},
} do
  tap.fails(case[1], {table.unpack(case, 2)}, "an error says: " .. table.concat(case, "; ", 2))
end

-- A rank computes its share of a loop's work. Rows of the batch are independent, so a body is split by rows: also if the state
-- is a constant or a product contracts it, and if only weights are split. A body whose state is contracted cannot be split in
-- another way; so with fewer rows than ranks, each rank computes at least one row.
local nn = rille.nn
local Cell = nn.Module:extend("Cell")
function Cell:init() self.x, self.h = nn.Linear(16, 16), nn.Linear(16, 16) end
local P1, P4 = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1, 2, 3})

local function rows_of(x) return {x.shape[1], 16} end
local loops = { -- Columns: module; fn(module, x) with x: {batch, time, 16}.
  ["a recurrent cell"] = {Cell, function(n, x)
    return select(2, rille.scan(function(h, t) local y = (n.x(t) + n.h(h)):tanh() return y, y end, rille.zeros(rows_of(x)), x, {axis = 1}))
  end},
  ["a recurrent cell, time first"] = {Cell, function(n, x)
    return select(2, rille.scan(function(h, t) local y = (n.x(t) + n.h(h)):tanh() return y, y end, rille.zeros(rows_of(x)), x:transpose(0, 1)))
  end},
  ["a norm of the state"] = {Cell, function(n, x)
    return select(2, rille.scan(function(h, t) local y = (n.x(t) + n.h(h)):layer_norm() return y, y end, rille.zeros(rows_of(x)), x, {axis = 1}))
  end},
  ["a linear recurrence"] = {Cell, function(n, x)
    return select(2, rille.scan(function(h, t) local y = h * 0.9 + n.x(t) return y, y end, rille.zeros(rows_of(x)), x, {axis = 1}))
  end},
  ["a state of matrices"] = {Cell, function(n, x)
    return select(2, rille.scan(function(h, t)
      local k = n.x(t)
      h = h + k:unsqueeze(2):matmul(k:unsqueeze(1))
      return h, h:matmul(k:unsqueeze(2)):squeeze(2)
    end, rille.zeros{x.shape[1], 16, 16}, x, {axis = 1}))
  end},
  ["nn.LSTM"] = {function() return nn.LSTM(16, 16, {num_layers = 2}) end, function(n, x) return (n(x)) end},
  ["nn.GRU"] = {function() return nn.GRU(16, 16) end, function(n, x) return (n(x)) end},
}

-- Returns the loss, the gradients, and the largest number of floating-point operations of a rank.
local function work(loop, P, rows, recipe, options)
  rille.manual_seed(1)
  local net = loop[1]()
  net:to_global{placement = P, sbp = "B"}
  if recipe then rille.parallel(net, recipe) end
  local x = rille.randn{rows, 8, 16}:to_global{placement = P, sbp = recipe and recipe.data and "S(0)" or "B"}:detach()
  local step = rille.graph(function(a)
    local loss = loop[2](net, a):square():mean()
    loss:backward()
    return loss
  end, options)
  local list, most = {step(x):item()}, 0
  for i, p in ipairs(net:parameters()) do list[i + 1] = p.grad and p.grad:to("f64"):totable() or false end
  for _, d in ipairs(step:stats().devices) do most = math.max(most, d.flops) end
  return list, most
end

tap.group("the share of a rank", function()
  for name, loop in tap.sorted(loops) do
    local want, all = work(loop, P1, 32)
    for how, c in tap.sorted{data = {{data = 0}}, ["zero 3"] = {{data = 0, zero = 3}}, ["micro-batches"] = {{data = 0}, {micro_batches = 4}},
      planned = {nil, {auto_parallel = true, time_limit = 0.05}}, columns = {{tensor = 0, layers = {x = "column"}}}} do
      if how ~= "columns" or loop[1] == Cell then
        local got, most = work(loop, P4, 32, c[1], c[2])
        tap.near(got, want, ("%s, %s: loss and gradients"):format(name, how), 1e-4, 1e-6)
        tap.ok(most <= 0.27 * all, ("%s, %s: a rank of 4 computes a quarter"):format(name, how), most / all)
      end
    end
    local _, few = work(loop, P1, 2)
    local _, most = work(loop, P4, 2, {data = 0})
    tap.ok(most <= 0.55 * few, name .. ", 2 rows: a rank of 4 computes one row", most / few)
  end
end)

tap.done()
