-- assigned-gradients.lua - tests gradients through assignments. Random programs that change variables in place must
-- give the loss and gradients of equal programs without assignments, eagerly and compiled, in several layouts.
local tap = dofile("t/lib/tap.lua")

local ROWS <const>, COLUMNS <const> = 4, 3

-- Kinds of assignment to variable x. Columns: an assignment in place, and a function that returns the assigned value.
-- y: a tensor of x's shape.
local kinds = {
  {function(x, y) x:copy_(y) end, function(_, y) return y end},
  {function(x, y) x:add_(y) end, function(x, y) return x + y end},
  {function(x, y) x:mul_(y) end, function(x, y) return x * y end},
  {function(x) x:mul_(x) end, function(x) return x * x end},
  {function(x) x:tanh_() end, function(x) return x:tanh() end},
  {function(x, y) x:sub_(y[1]) end, function(x, y) return x - y[1] end},
  {function(x) x:fill_(0.5) end, function(x) return x:detach() * 0 + 0.5 end},
  {function(x, y) x[1] = y[2] end, function(x, y) return rille.concat({x[{{0, 1}}], y[{{2, 3}}], x[{{2}}]}, 0) end},
  {function(x, y) x[{{}, 0}] = y[{{}, 1}] * 2 end, function(x, y) return rille.concat({y[{{}, {1, 2}}] * 2, x[{{}, {1}}]}, 1) end},
  {function(x) x[{{1, 3}}] = 1.5 end, function(x) return rille.concat({x[{{0, 1}}], x[{{1, 3}}]:detach() * 0 + 1.5, x[{{3}}]}, 0) end},
  {function(x, y) x[x:gt(0.5)] = y:mean() end, function(x, y) return x:gt(0.5):where(y:mean(), x) end},
  {function(x, y) x:copy_(x:masked_fill(y:lt(0), y:sum())) end, function(x, y) return y:lt(0):where(y:sum(), x) end},
  {function(x, y) x:index_put_({{{0, 0, 3}}}, y[{{0, 3}}], {accumulate = true}) end,
    function(x, y) return rille.concat({x[{{0, 1}}] + y[{{0, 1}}] + y[{{1, 2}}], x[{{1, 3}}], x[{{3}}] + y[{{2, 3}}]}, 0) end},
  {function(x, y) rille.no_grad(function() x:add_(y) end) end, function(x, y) return (x + y):detach() end},
}

-- Runs a program on new variables. program: list of {kind, index of the variable, index of the operand}; form: 1:
-- assignments in place, 2: functions that return the value. Returns the loss and the gradients of the parameters.
local function run(program, form, parameters)
  local values = {}
  for i, p in ipairs(parameters) do
    values[i] = i == 1 and p:clone() or (p:detach() * 0):detach()
    values[i + #parameters] = p * i
  end
  local loss = (parameters[1] * parameters[2]):sum()
  for _, line in ipairs(program) do
    local kind, to, from = table.unpack(line)
    local new = kinds[kind][form](values[to], values[from])
    if form == 2 then values[to] = new end
    loss = loss + (values[to] * 0.5):sin():sum()
  end
  for i = 1, #parameters do loss = loss + values[i]:square():mean() end
  return loss, rille.grad(loss, parameters)
end

local function text(program)
  return table.concat(tap.list(program, function(line) return ("%d: %d from %d"):format(table.unpack(line)) end), ", ")
end

local layouts = {{{0}, "B"}, {{0, 1}, "B"}, {{0, 1}, "S(0)"}, {{0, 1, 2, 3}, "S(1)"}}
local seed = tap.seed(5)
tap.group("random programs", function()
  for i = 1, 160 do
    if tap.share(i) then
      math.randomseed(seed, i)
      rille.manual_seed(seed + i)
      local ranks, sbp = table.unpack(layouts[i % #layouts + 1])
      local parameters, program = {}, {}
      for k = 1, 2 do
        local drawn = rille.randn({ROWS, COLUMNS}, {dtype = "f64"})
        parameters[k] = drawn:to_global{placement = rille.placement("cpu", ranks), sbp = sbp}:detach():requires_grad_()
      end
      for k = 1, math.random(1, 6) do program[k] = {math.random(#kinds), math.random(2), math.random(4)} end
      local want = tap.values(run(program, 2, parameters))
      local name = ("program %d (%s), %s on %d"):format(i, text(program), sbp, #ranks)
      tap.near(tap.values(run(program, 1, parameters)), want, name .. ": gradients of assignments", 1e-9, 1e-9)
      local step = rille.graph(function() return run(program, 1, parameters) end)
      for _ = 1, 2 do tap.near(tap.values(step()), want, name .. ": compiled", 1e-9, 1e-9) end
    end
  end
end)

-- Functions of a step. Each makes a variable y with as many rows as the micro-batch, and then assigns to y.
local function by_column(x, w)
  local y = rille.zeros(x.shape[1], COLUMNS)
  for k = 0, COLUMNS - 1 do y[{{}, k}] = x[{{}, k}] * w[k] end
  return y
end
local row_steps = {
  columns = by_column,
  copy = function(x, w)
    local y = rille.zeros(x.shape[1], COLUMNS)
    y:copy_(x * w)
    return y
  end,
  rows = function(x, w)
    local y = by_column(x, w)
    y[x:sum(1):lt(0)] = 0.5
    return y
  end,
  states = function(x, w)
    local states, h = rille.zeros(x.shape[1], 2, COLUMNS), rille.zeros(x.shape[1], COLUMNS)
    for t = 0, 1 do
      h = (h + x * w):tanh()
      states[{{}, t}] = h
    end
    return states
  end,
  changed = function(x, w) return by_column(x, w):add_(x):mul_(w) end,
}

tap.group("micro-batches", function()
  rille.manual_seed(3)
  local x = rille.randn(ROWS, COLUMNS)
  for name, fn in pairs(row_steps) do
    local w, seen = rille.tensor({1, 2, 3}, {requires_grad = true}), rille.zeros(COLUMNS)
    local count = rille.zeros{1}
    local function step(rows)
      local z = rows:detach():requires_grad_()
      local y = fn(z, w)
      local loss = y:square():mean() + z:sum()
      rille.no_grad(function() seen:copy_(seen * 0.5 + rows:mean(0)) count:add_(rows:gt(0):to("f32"):sum()) end)
      return y, loss, rille.grad(loss, {w, z})
    end
    local want = tap.values(step(x))
    local mean, positive = tap.values(seen, count)[1], count:item()
    for _, m in ipairs{1, 2, 4} do
      seen:zero_()
      count:zero_()
      local found = tap.values(rille.graph(step, {micro_batches = m})(x))
      tap.near(found, want, ("%s in %d micro-batches: rows, loss and gradients"):format(name, m), 1e-5, 1e-5)
      tap.near({tap.values(seen)[1], count:item()}, {mean, positive}, ("%s in %d: means and sums of the batch in variables"):format(name, m), 1e-5, 1e-5)
    end
  end
  local w, outside = rille.tensor({1, 2, 3}, {requires_grad = true}), rille.zeros(2, COLUMNS)
  local linear = rille.graph(function(rows)
    local h = rows:detach():requires_grad_()
    local y = h * w
    y:retain_grad()
    local loss = y:mean()
    loss:backward()
    return h.grad * 1, y.grad, rille.grad(rows:detach():requires_grad_():sum() + (h * w):sum(), {h})
  end, {micro_batches = 2})
  local each = 1 / (ROWS * COLUMNS)
  local function rows_of(a, b, c) return tap.list(ROWS, function() return {a, b, c} end) end
  tap.near(tap.values(linear(x)), {rows_of(each, 2 * each, 3 * each), rows_of(each, each, each), rows_of(1, 2, 3)},
    "a gradient that depends on no data has the rows of the batch", 1e-6, 1e-6)
  local seen = rille.zeros{1}
  local function totals(rows)
    local square, sum = (rows * w):square():mean(), (rows * w):sum()
    rille.no_grad(function() seen:add_(sum) seen:add_(square) end)
    local one = rows:sum(0):sum{axis = 0, keepdim = true}
    return {one:tanh(), one:relu() + sum, square:sqrt() * sum, rows:sum() - square:sqrt(), square + rille.grad(sum, {w}):square():mean(), seen * 1 + square}
  end
  local want = tap.values(table.unpack(totals(x)))
  for _, m in ipairs{2, 4} do
    seen:zero_()
    tap.near(tap.values(table.unpack(rille.graph(totals, {micro_batches = m})(x))), want,
      ("functions of several sums and means, in %d micro-batches"):format(m), 1e-5, 1e-5)
  end
  tap.fails(function()
    rille.graph(function(rows) return tap_backward((rows * w):sum():square()) end, {micro_batches = 2})(x)
  end, {"square (", "needs a sum over the rows"}, "a loss that is no sum over the rows is refused, and the operator is named")
  tap.fails(function() rille.graph(function(rows) outside:copy_(rows) return rows * 1 end, {micro_batches = 2})(x) end,
    {"once per batch", "a sum or a mean"}, "rows cannot be assigned to a variable from outside of the step")
end)

local function pair() return rille.tensor{1, 2, 3}:requires_grad_(), rille.zeros(3) end

tap.group("the variable's properties", function()
  local w, x = pair()
  x:add_(w)
  tap.is({x.is_leaf, x.requires_grad}, {false, true}, "an assigned gradient makes the variable a result")
  local seen
  x:register_hook(function(g) seen = g end)
  x:retain_grad()
  local loss = x:square():sum()
  x:zero_()
  tap.is({x.is_leaf, x.requires_grad}, {true, false}, "a constant makes it a leaf again")
  loss:backward()
  tap.is({seen:totable(), w.grad:totable()}, {{2, 4, 6}, {2, 4, 6}}, "its earlier value has hooks and passes on gradients")
  local y = w * 2
  rille.no_grad(function() x:copy_(y) end)
  y:sum():backward()
  tap.is({x.requires_grad, w.grad:totable()}, {false, {4, 6, 8}}, "no_grad records nothing, and the source keeps its gradient")
  x:copy_(w)
  tap.is({x:detach().requires_grad, x.requires_grad}, {false, true}, "detach() has the value alone")
  tap.is(rille.grad(x:sum(), {x}):totable(), {1, 1, 1}, "rille.grad accepts the variable")
end)

tap.group("a compiled step", function()
  local w, x = pair()
  local step = rille.graph(function(k)
    x[1] = w[0] * k
    return tap_backward(x:square():sum())
  end)
  tap.is({step(rille.tensor(3)):item(), step(rille.tensor(2)):item(), w.grad[0]:item()}, {9, 4, 18 + 8}, "assigns and differentiates in each call")
  tap.is({x:totable(), x.is_leaf, x.requires_grad}, {{0, 2, 0}, true, false}, "the variable has the value, without its history")
  local reads = rille.graph(function() return x:sum() end)
  tap.is(reads():item(), 2, "a step reads the variable")
  x:copy_(w)
  tap.is(reads():item(), 6, "and its later value, which has a gradient")
  tap.fails(function() rille.graph(function() return tap_backward(x:sum()) end)() end,
    {"assigned outside of the step", "detach"}, "a gradient from outside of the step is an error")
end)

for _, case in ipairs{
  {function(w) w:copy_(w * 2) end, "copy_: the variable requires a gradient itself", "no_grad"},
  {function(w) w:add_(w * 2) end, "add_: operand 2 needs a gradient", "no_grad"},
  {function(w) w[1] = w[0] end, "index: the variable requires a gradient itself", "no_grad"},
  {function(w) w:index_put_({1}, w[0]) end, "index: the variable requires a gradient itself"},
  {function(w) local y = w * 2 y[0] = 1 end, "the result of an operator", "y = x:clone()"},
  {function(w) local y = w * 2 y:index_put_({0}, 1) end, "the result of an operator", "y = x:clone()"},
  {function(w, x) x:add_(w) x:requires_grad_() end, "leaf tensors only"},
  {function(w, x) x:add_(w) x:to_global_{placement = rille.placement("cpu", {0, 1}), sbp = "B"} end, "whose gradient is recorded", "x:copy_(x:detach())"},
  {function(w, x) x:add_(w) x:square():sum():backward() x:add_(w) x:sum():backward() end, "backward() was already called"},
} do
  tap.fails(function() case[1](pair()) end, {table.unpack(case, 2)}, "an error says: " .. table.concat(case, "; ", 2))
end

tap.done()
