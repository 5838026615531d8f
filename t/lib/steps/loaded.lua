-- loaded.lua - compares the operators of examples/plugin with formulas of built-in operators. Values and gradients
-- must be equal for every pair of layouts, in eager code, compiled steps, micro-batches and recomputation. arg: the
-- library, which is loaded twice, and the number of devices.
local tap = dofile("t/lib/tap.lua")
rille.load_operators(arg[1])
rille.load_operators(arg[1])
rille.manual_seed(1)
local count = math.tointeger(arg[2])

local function distance(x, c) return (x:unsqueeze(1) - c:unsqueeze(0)):square():sum(2) end
local function softsign(x, scale) return x / (x:abs() + scale) end

local ranks = {}
for i = 0, count - 1 do ranks[#ranks + 1] = i end
local place = rille.placement("cpu", ranks)
local xs, cs = rille.randn{8, 6}, rille.randn{4, 6}

-- Evaluates f at operands with the layouts sx and sc. Returns the value and the gradients of both operands.
local function evaluate(f, sx, sc, dtype)
  local x = xs:to_global{placement = place, sbp = "B"}:cast(dtype):to_global{placement = place, sbp = sx}:detach():requires_grad_(true)
  local c = cs:to_global{placement = place, sbp = "B"}:cast(dtype):to_global{placement = place, sbp = sc}:detach():requires_grad_(true)
  local y = f(x, c)
  return y, {rille.grad((y * y):sum(), {x, c})}
end
local function near(a, b, tolerance) return (a - b):abs():max():item() <= tolerance * (1 + b:abs():max():item()) end

local want, gradient = evaluate(distance, "B", "B", "f64")
for _, sx in ipairs{"B", "S(0)", "S(1)"} do
  for _, sc in ipairs{"B", "S(0)", "S(1)"} do
    for dtype, tolerance in pairs{f64 = 1e-12, f32 = 1e-5, bf16 = 0.05} do
      local y, g = evaluate(function(x, c) return x:distance(c) end, sx, sc, dtype)
      tap.ok(near(y:cast("f64"), want, tolerance), ("distance of %s, %s in %s has its value"):format(sx, sc, dtype))
      tap.ok(near(g[1]:cast("f64"), gradient[1], 4 * tolerance) and near(g[2]:cast("f64"), gradient[2], 4 * tolerance),
        ("distance of %s, %s in %s has its gradients"):format(sx, sc, dtype))
    end
  end
end

-- ---- compiled steps with a loaded operator ----

-- Returns the losses of training steps in which f replaces the operator `distance`.
local function train(f, options)
  local x, c = xs:to_global{placement = place, sbp = "S(0)"}, cs:to_global{placement = place, sbp = "B"}:detach():requires_grad_(true)
  local opt, losses = rille.optim.SGD({c}, {lr = 0.01}), {}
  local step = tap.training(opt, function(x) return f(x, c):mean() end, options)
  for i = 1, 4 do losses[i] = step(x):item() end
  return losses
end
local function ours(x, c) return x:distance(c):softsign{scale = 2} end
local function theirs(x, c) return softsign(distance(x, c), 2) end
for name, options in pairs{plain = {}, ["micro-batches"] = {micro_batches = 2}, recomputation = {recompute = true}, checked = {check = "trace"},
  planned = {auto_parallel = "optimal"}} do
  tap.near(train(ours, options), train(theirs, options), "a compiled step trains alike: " .. name)
end

-- Returns the losses of a pipeline: function `first` runs on devices 0 and 1, function `second` on devices 2 and 3.
local function pipeline(first, second)
  local A, B = rille.placement("cpu", {0, 1}), rille.placement("cpu", {2, 3})
  local x = xs:to_global{placement = A, sbp = "S(0)"}
  local w = rille.ones({6}, {placement = A, sbp = "B", requires_grad = true})
  local c = cs:to_global{placement = B, sbp = "S(1)"}:detach():requires_grad_(true)
  local opt, losses = rille.optim.SGD({w, c}, {lr = 0.01}), {}
  local step = rille.graph(function(x)
    local h = first(x * w, 2):to_global{placement = B, sbp = "S(1)"}
    return tap_update(opt, second(h, c):mean())
  end, {micro_batches = 4, schedule = "1f1b"})
  for i = 1, 4 do losses[i] = step(x):item() end
  return losses
end
if count == 4 then
  tap.near(pipeline(function(x, s) return x:softsign{scale = s} end, rille.distance), pipeline(softsign, distance), "a pipeline trains alike")
end

-- ---- loaded operators inside rille.per_rank ----

if count > 1 then
  local local_sum = rille.per_rank(function(mesh, v) return mesh:psum(v:softsign{scale = 2}:sum()) end, {inputs = {"S(0)"}, outputs = {"B"}})
  local v = xs:to_global{placement = place, sbp = "S(0)"}
  tap.near(local_sum(v):item(), softsign(xs, 2):sum():item(), "an element-wise operator on the shards of each rank")
  tap.fails(function() return rille.per_rank(function(_, v) return v:distance(v) end, {inputs = {"S(0)"}, outputs = {"S(0)"}})(v) end,
    "has no 'distance'", "another operator is none of a local tensor")
end

-- ---- names of loaded operators, error messages, help pages ----

local x = rille.tensor({-1, 0, 3})
tap.near(x:softsign():totable(), {-0.5, 0, 0.75}, "a default attribute")
tap.near(rille.softsign(x, {scale = 3}):totable(), {-0.25, 0, 0.5}, "an attribute by name")
tap.near(x:clone():softsign_():totable(), {-0.5, 0, 0.75}, "the method in place")
tap.near(rille.tensor({3, -1}):softsign():totable(), {0.75, -0.5}, "integers become f32")
tap.fails(function() return x:softsign{scale = 0} end, "softsign: scale must be above 0, found 0", "a refused attribute is reported")
tap.fails(function() return rille.distance(rille.ones{2, 3}, rille.ones{2, 4}) end, "distance: dimension 1 of x is 3 but dimension 1 of centres is 4", "unequal sizes are reported")
tap.fails(function() return rille.distance(rille.ones{2, 3}, rille.arange(3):reshape(1, 3)) end, "float", "a refused dtype is reported")
tap.ok(tap.has(rille.page("distance"), "distance(x, centres)", "y[a, c] = sum over b of", "load_operators", "S(0), B -> S(0)"), "the page has formula and layouts")
tap.ok(tap.has(rille.page("softsign"), "softsign(x, scale = 1)"), "the page has the attributes")
tap.ok(not rawget(rille, "distance_dx"), "a hidden operator is no function")
tap.ok(rille.explain(xs:distance(cs)) ~= nil, "explain reports the layouts")
tap.done()
