-- trace-reuse.lua - tests that a compiled step computes nothing twice: equal calls are merged, inverse operators cancel,
-- and gathered values are shared. The step's results must not change.

local tap = dofile("t/lib/tap.lua")
local nn = rille.nn

local P2 = rille.placement("cpu", {0, 1})
local P4 = rille.placement("cpu", {0, 1, 2, 3})

local function count(step, name) return tap.sum(step:explain().ops, function(op) return (op.name == name and 1 or 0) end) end
local function placed(x, placement, sbp) return rille.tensor(x:totable(), {placement = placement, sbp = sbp}) end
local x = rille.tensor{{1, -2, 3}, {0.5, 2, -1}}

tap.group("equal calls", function()
  local live = 2
  local number, other = rille.live(function() return live end), rille.live(function() return 2 end)
  for _, t in ipairs{
    {"two calls on one value", "exp", 1, function(a) return a:exp() + a:exp() * 2 end},
    {"with one number", "mul", 1, function(a) return a * 2 + a * 2 end},
    {"with two numbers", "mul", 2, function(a) return a * 2 + a * 3 end},
    {"with an integer and a float", "pow", 2, function(a) return a:abs() ^ 3 + a:abs() ^ 3.0 end},
    {"with one live number", "mul", 1, function(a) return a * number + a * number end},
    {"with two live numbers", "mul", 2, function(a) return a * number + a * other end},
    {"along one axis", "sum", 1, function(a) return a:sum{axis = 0} + a:sum{axis = -2} end},
    {"along two axes", "sum", 2, function(a) return a:sum{axis = 0}:max() + a:sum{axis = 1}:max() end},
    {"with operands in another order", "sub", 2, function(a) return (a - a:exp()) * (a:exp() - a) end},
    {"with an update in between", "add", 3, function(a)
      local v = a:detach()
      local before = v + 1
      v:copy_(v * 3)
      return before + (v + 1)
    end},
  } do
    local what, name, times, f = table.unpack(t)
    local step = rille.graph(f)
    local got = step(x)
    tap.is(count(step, name), times, ("equal calls, %s: %d"):format(what, times))
    tap.near(got:totable(), f(x):totable(), what .. ": values equal those without a graph", 1e-6, 1e-6)
  end
end)

tap.group("random calls are never equal", function()
  local step = rille.graph(function(a) return a:dropout(0.5), a:dropout(0.5) end)
  local ones = rille.ones({1000})
  local a, b = step(ones)
  tap.ok((a - b):abs():sum():item() > 0, "two dropouts have different masks")
end)

tap.group("variables", function()
  local v = placed(x, P2, "S(0)")
  local sum
  local step = rille.graph(function(a) sum = v + a; v:add_(a); return sum, v * 1 end)
  local before, after = step(placed(x, P2, "S(0)"))
  tap.is(before:totable(), (x * 2):totable(), "a result that equals the new version of a variable is right")
  tap.is({v:totable(), after:totable()}, {(x * 2):totable(), (x * 2):totable()}, "the variable has the new version")
  step(placed(x, P2, "S(0)"))
  tap.is(v:totable(), (x * 3):totable(), "a second run continues from the new version")
end)

tap.group("gradients", function()
  local function both(run)
    local w, u = rille.tensor({1, 2, 3}, {requires_grad = true}), rille.tensor({4, 5, 6}, {requires_grad = true})
    local f = function(a) run(a, w, u) return a end
    return w, u, f
  end
  for what, run in pairs{
    ["equal gradients of two parameters"] = function(a, w, u) ((w + u) * a):sum():backward() w.grad:mul_(2) end,
    ["two losses with a common part"] = function(a, w) (w * a):exp():sum():backward(); (((w * a):exp() * 2):sum()):backward() end,
    ["a part without gradient first"] = function(a, w)
      local fixed = rille.no_grad(function() return (w * a):exp() end);
      ((w * a):exp() * fixed):sum():backward()
    end,
    ["a part with gradient first"] = function(a, w)
      local free = (w * a):exp()
      local fixed = rille.no_grad(function() return (w * a):exp() end);
      (free * fixed):sum():backward()
    end,
    ["a gradient of a gradient"] = function(a, w)
      local g = rille.grad((w * a):exp():sum(), {w});
      (g * (w * a):exp()):sum():backward()
    end,
    ["a transpose there and back"] = function(a, w)
      local m = w:reshape{1, 3};
      (m:transpose(0, 1):transpose(0, 1) * m:permute{1, 0}:permute{1, 0} * a):sum():backward()
    end,
  } do
    local a = rille.tensor{0.1, 0.2, 0.3}
    local w, u, f = both(run)
    f(a)
    local want = {w.grad:totable(), u.grad and u.grad:totable()}
    w, u, f = both(run)
    rille.graph(f)(a)
    tap.near({w.grad:totable(), u.grad and u.grad:totable()}, want, what .. ": gradients equal those without a graph", 1e-5, 1e-6)
  end
end)

tap.group("inverse operators", function()
  local step = rille.graph(function(a)
    return a:transpose(0, 1):transpose(1, 0) + a:permute{1, 0}:permute{1, 0} + a:reshape{6}:reshape{2, 3} + a:to("f32")
  end)
  tap.is(step(x):totable(), (x * 4):totable(), "the value is right")
  tap.is(#step:explain().ops, 3, "only the additions remain")
  local y = x:to("f32")
  tap.is(#rille.explain(y * 1).ops, 1, "a cast to the same dtype is no operator, outside of graphs, too")
  local v = x:clone()
  local same = v:to("f32")
  v:add_(1)
  tap.is({same:totable(), v:totable()}, {x:totable(), (x + 1):totable()}, "such a cast keeps the old value of a variable")
end)

tap.group("a weight is gathered once", function()
  local function train(placement, split)
    rille.manual_seed(3)
    local net = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 8))
    if placement then
      net:to_global{placement = placement, sbp = "B"}
      for _, p in ipairs(net:parameters()) do p:to_global_{placement = placement, sbp = split} end
    end
    local opt = rille.optim.SGD(net:parameters(), {lr = 0.1})
    local step = tap.training(opt, function(a, y) return net(a):cross_entropy(y) end)
    return function(a, y)
      if placement then a, y = placed(a, placement, "S(0)"), rille.tensor(y:totable(), {dtype = "i64", placement = placement, sbp = "S(0)"}) end
      return step(a, y)
    end, step
  end
  local a, y = rille.randn({1024, 16}), rille.randint(0, 8, {1024})
  local one = train()
  local many, step = train(P4, "S(0)")
  for i = 1, 3 do tap.near(many(a, y):item(), one(a, y):item(), "step " .. i .. ": the loss equals that of one device", 1e-5, 1e-6) end
  local gathered = {}
  for _, b in ipairs(step:explain().boxing) do
    if b.of_leaf ~= false and b.name == "all-gather" then gathered[#gathered + 1] = table.concat(b.shape, "x") end
  end
  table.sort(gathered)
  tap.is(gathered, {"64", "64x16", "8", "8x64"}, "each parameter is gathered once for both passes")
end)

tap.group("the gradient of a sum", function()
  local function layout(of)
    local w = rille.eye(6, {placement = P4, sbp = "B", requires_grad = true})
    local step = rille.graph(function(a) of(a, w):sum():backward() end)
    step(rille.ones({8, 6}, {placement = P4, sbp = "S(0)"}))
    for _, op in ipairs(step:explain().ops) do if op.name == "expand" then return op.outputs[1] end end
  end
  tap.is(layout(function(a, w) return a:matmul(w) end), "S(0)", "is split like the summed value: each rank expands it for its rows")
  tap.is(layout(function(a, w) return a:to_global{sbp = "B"}:matmul(w) end), "B", "is replicated if the summed value is replicated")
end)

tap.group("cross_entropy over split classes", function()
  local inf, rows = math.huge, tap.rows(32, 64, function(r, k) return ((r * 37 + k * 11) % 23) / 4 end)
  rows[1][5], rows[2][6], rows[3][7] = inf, -inf, 3.3e38
  for k = 1, 64 do rows[4][k] = -inf end
  local logits, labels = rille.tensor(rows), rille.zeros({32}, {dtype = "i64"})
  local w = placed(logits, P4, "S(1)")
  w.requires_grad = true
  local step = rille.graph(function(y) return tap_backward(w:cross_entropy(y)) end)
  step(rille.zeros({32}, {dtype = "i64", placement = P4, sbp = "B"}))
  tap.is(step:explain().bytes, 4 * 480, "a step moves 480 bytes per rank: each row's maximum is reduced once")
  local got, want = w:logsumexp(1):totable(), logits:logsumexp(1):totable()
  tap.near(got, want, "logsumexp of infinite and huge logits equals that of one device", 1e-5, 1e-5)
end)

tap.done()
