-- func.lua - tests rille.func. Gradients that Lua functions compute must equal those of Rille's operators, in every
-- layout, eager and compiled, with micro-batches, stages and recomputation. An error in such a function names the
-- function.
local tap = dofile("t/lib/tap.lua")

rille.manual_seed(tap.seed(11))
local P0, P1, P01, P23 = rille.placement("cpu", {0}), rille.placement("cpu", {1}), rille.placement("cpu", {0, 1}), rille.placement("cpu", {2, 3})

local function near(a, b, within)
  local x, y = a:to_global{placement = P0, sbp = "B"}, b:to_global{placement = P0, sbp = "B"}
  return (x - y):abs():max():item() <= (within or 1e-5)
end

-- A rille.func that computes x * sigmoid(x w) from two tensors and a number. For backward it saves an argument and
-- the value of the sigmoid.
local gate = rille.func{name = "gate",
  forward = function(ctx, x, w, scale)
    local s = x:matmul(w):sigmoid()
    ctx:save_for_backward(x, w, s)
    ctx.scale = scale
    return x * s * scale
  end,
  backward = function(ctx, dy)
    local x, w, s = table.unpack(ctx.saved_tensors)
    local ds = dy * x * ctx.scale * s * (1 - s)
    return dy * s * ctx.scale + ds:matmul(w:transpose(0, 1)), x:transpose(0, 1):matmul(ds)
  end}
local function plain(x, w, scale) return x * x:matmul(w):sigmoid() * scale end

local DIM <const> = 4
local X, W1, W2 = rille.randn{8, DIM}, rille.randn{DIM, DIM}, rille.randn{DIM, DIM}

local function parameter(values, placement, sbp)
  return values:to_global{placement = placement, sbp = sbp}:detach():requires_grad_(true)
end

-- Returns loss and gradients of two layers, with fn as activation.
local function run(fn, how)
  local a, b = parameter(W1, how.first, how.w or "B"), parameter(W2, how.second, how.w or "B")
  local function train(x)
    local h = fn(x, a, 2):to_global{placement = how.second, sbp = how.x}
    local loss = fn(h, b, 0.5):square():mean()
    loss:backward()
    local da, db = a.grad, b.grad
    a.grad, b.grad = nil, nil
    return loss, da, db
  end
  local step = how.options and rille.graph(train, how.options) or train
  local x = X:to_global{placement = how.first, sbp = how.x}
  step(x)
  return step(x)
end

local places = {
  {"on one device", first = P0, second = P0, x = "B"},
  {"with rows split", first = P01, second = P01, x = "S(0)"},
  {"with columns of weights split", first = P01, second = P01, x = "B", w = "S(1)"},
  {"with rows of weights split", first = P01, second = P01, x = "B", w = "S(0)"},
  {"on two stages", first = P0, second = P1, x = "B"},
  {"with rows split, on two stages", first = P01, second = P23, x = "S(0)"},
}
local modes = {
  {"eager"},
  {"compiled", {}},
  {"in 4 micro-batches", {micro_batches = 4}},
  {"recomputed", {recompute = true}},
  {"in 4 micro-batches, recomputed", {micro_batches = 4, recompute = true}},
  {"planned", {auto_parallel = true}},
}
local want = {run(plain, {first = P0, second = P0, x = "B"})}
for _, place in ipairs(places) do
  for _, mode in ipairs(modes) do
    place.options = mode[2]
    local good, loss, da, db = pcall(run, gate, place)
    tap.ok(good and near(loss, want[1]) and near(da, want[2]) and near(db, want[3]),
      ("a function's gradients are those of its operators: %s, %s"):format(mode[1], place[1]), good or loss)
  end
end

-- ---- values and gradients of functions ----

local function leaf(values, dtype) return rille.tensor(values, {requires_grad = true, dtype = dtype or "f64"}) end

local cube = rille.func{name = "cube",
  forward = function(ctx, x)
    local y = x * x * x
    ctx:save_for_backward(x, y)
    return y
  end,
  backward = function(ctx, dy)
    local x, y = table.unpack(ctx.saved_tensors)
    return dy * 3 * y / x
  end}
local t = leaf(2.0)
local d1 = rille.grad(cube(t), {t})
local d2 = rille.grad(d1, {t})
tap.ok(d1:item() == 12 and d2:item() == 12 and rille.grad(d2, {t}):item() == 6, "first, second and third derivatives of x^3 at 2 are 12, 12, 6")

-- Returns the gradient of |d fn(fn(w x)) / dw|^2, as text.
local function twice(fn, options, again)
  local w, M = leaf{1, 2, 3}, rille.nn.Module:extend("M")
  function M:forward(v) return fn(fn(v)) end
  local m = M():recompute(again)
  local function train(x)
    local d = rille.grad(m(w * x):sum(), {w});
    (d * d):sum():backward()
    local g = w.grad
    w.grad = nil
    return g
  end
  local step, x = options and rille.graph(train, options) or train, rille.tensor({1, 0.5, 0.25}, {dtype = "f64"})
  step(x)
  return step(x):totable()
end
local want2 = twice(function(x) return x * x * x end)
for _, how in ipairs{{"eager"}, {"eager, recomputed", nil, true}, {"compiled", {}}, {"compiled, recomputed", {}, true}, {"a step that is recomputed", {recompute = true}}} do
  tap.near(twice(cube, how[2], how[3] or false), want2, "a gradient of a gradient: " .. how[1], 1e-9)
end

local both = rille.func{name = "both", forward = function(_, a, b) return a * 2, b * 3, "text", a:gt(0) end,
  backward = function(_, da, db, text, dtruth) return text == nil and dtruth == nil and da * 2, db * 3 end}
local a, b = leaf{1, 2}, leaf{3, 4}
local p, q, text, truth = both(a, b)
p:sum():backward()
tap.ok(text == "text" and truth.dtype == "bool" and a.grad:totable()[1] == 2 and b.grad:totable()[2] == 0,
  "a result that no loss reads has a gradient of zeros; results that are no float tensors pass")
a.grad, b.grad = nil, nil
p, q = both(a, b);
(p * q):sum():backward()
tap.ok(a.grad:totable()[2] == 24 and b.grad:totable()[2] == 12, "backward runs once, with the gradients of all results")

local calls = 0
local counted = rille.func{forward = function(_, x) return x end, backward = function(_, dy) calls = calls + 1; return dy end}
a.grad = nil
local y = counted(a)
tap.ok(not rawequal(y, a) and y.requires_grad, "a function that returns its argument makes a new tensor");
(y * y + counted(y)):sum():backward()
tap.ok(calls == 2 and a.grad:totable()[2] == 5, "a result that two operators read meets backward once, with the sum of gradients")

local outer = rille.func{forward = function(ctx, x) ctx:save_for_backward(x); return cube(x) end,
  backward = function(ctx, dy)
    local x = ctx.saved_tensors[1]:detach():requires_grad_(true)
    rille.enable_grad(function() cube(x):sum():backward() end)
    return dy * x.grad
  end}
a.grad = nil
outer(cube(a)):sum():backward() -- cube applied twice is x^9
tap.ok(math.abs(a.grad:totable()[2] - 9 * 2 ^ 8) < 1e-9, "a backward function may call other functions, and backward")

local read = rille.func{forward = function(_, x) return x:clone() end, backward = function(_, dy) return dy:max():item() > 1 and dy * 0 or dy end}
a.grad = nil;
(read(a) * 3):sum():backward()
tap.ok(a.grad:totable()[1] == 0, "a backward function may read values in eager code")

local none = rille.func{forward = function(_, x, z) return x * z end, backward = function(ctx) return nil, ctx.needs_input_grad[2] and a * 7 end}
a.grad, b.grad = nil, nil
none(a, b):sum():backward()
tap.ok(a.grad == nil and b.grad:totable()[1] == 7, "nil is no gradient")
tap.ok(not none(rille.ones{2}, rille.ones{2}).requires_grad and not rille.no_grad(none, a, b).requires_grad,
  "without a gradient to compute, results have none")

local half = rille.func{forward = function(_, x) return x * 2 end, backward = function(_, dy) return (dy * 2):to("f64") end}
local h = rille.tensor({1, 2}, {dtype = "f32", requires_grad = true})
half(h):sum():backward()
tap.ok(h.grad.dtype == "f32" and h.grad:totable()[1] == 2, "a gradient gets the dtype of its argument")

-- ---- outside values that forward and backward read ----

local factor = 1
local follows = rille.func{forward = function(_, x) return x * factor end, backward = function(_, dy) return dy * factor end}
local w = leaf{1, 1}
local step = rille.graph(function(x)
  local loss = follows(w * x):sum()
  loss:backward()
  local g = w.grad
  w.grad = nil
  return loss, g
end)
step(rille.ones({2}, {dtype = "f64"}))
factor = 5
local loss, g = step(rille.ones({2}, {dtype = "f64"}))
tap.ok(loss:item() == 10 and g:totable()[1] == 5, "a compiled step follows the values that forward and backward read")

-- ---- two backward passes over one call ----

a.grad = nil
local once = cube(a):sum()
once:backward{retain_graph = true}
once:backward()
tap.ok(a.grad:totable()[2] == 24, "backward{retain_graph = true} may be followed by another backward")
tap.ok(select(2, pcall(once.backward, once)):find("already called.*retain_graph = true") ~= nil, "a third backward is an error that names the remedy")

-- ---- names of functions in plans and errors ----

tap.ok(tostring(rille.plan(gate(X, W1, 1))):find("in gate", 1, true) ~= nil, "a plan names the function")
rille.detect_nan(true)
local broken = rille.func{name = "broken", forward = function(_, x) return x * 1 end, backward = function(_, dy) return (dy - 5):log() end}
h.grad = nil
broken(h):sum():backward()
local _, why = pcall(function() return h.grad:totable() end)
tap.ok(tostring(why):find("broken", 1, true) ~= nil, "detect_nan names the function whose backward makes a NaN", why)
rille.detect_nan(false)

-- ---- errors for wrong functions ----

local function identity(_, x) return x * 1 end
local function backward(fn, ...)
  local f, args = rille.func{name = "mine", forward = identity, backward = fn}, table.pack(...)
  return function() f(table.unpack(args, 1, args.n)):sum():backward() end
end
local inner = rille.func{name = "inner",
  forward = function(ctx, x) local s = x:exp(); ctx:save_for_backward(s); return s * 1 end,
  backward = function(ctx, dy) return dy * ctx.saved_tensors[1] end}
local mistakes = {
  {"too few gradients", backward(function() end, a), "mine: backward must return one gradient per argument of forward, 1, found 0"},
  {"too many gradients", backward(function(_, dy) return dy, dy end, a), "mine: backward must return one gradient per argument of forward, 1, found 2"},
  {"a gradient for a number", backward(function(_, dy) return dy, dy end, a, 3), "mine: the gradient of argument 2 of forward must be nil"},
  {"another shape", backward(function(_, dy) return dy:sum() end, a), "mine: a gradient must have the shape of its tensor; argument 1 is f64{2}, and its gradient is f64{}"},
  {"an integer gradient", backward(function(_, dy) return dy:to("i64") end, a), "mine: a gradient must have a float dtype; argument 1 is f64{2}, and its gradient is i64{2}"},
  {"a number as gradient", backward(function() return 1 end, a), "mine: gradient 1 of backward must be a tensor or nil, found 1"},
  {"an error of the user", backward(function() error("the user's words") end, a), "the user's words"},
  {"an operator's error in backward", backward(function(_, dy) return dy:reshape{3} end, a), "reshape"},
  {"a tensor in a table", function() rille.func{name = "mine", forward = identity, backward = identity}(rille.ones{1}, {a}) end, "mine: argument 2 is a table with tensors that require gradients"},
  {"a tensor as field", function() rille.func{forward = function(ctx, x) ctx.x = x; return x end, backward = identity}(a) end, "ctx.x: a tensor must be kept by ctx:save_for_backward"},
  {"a number saved", function() rille.func{forward = function(ctx, x) ctx:save_for_backward(x, 2); return x end, backward = identity}(a) end, "save_for_backward: expected tensors, found 2 as argument 2"},
  {"no result", function() rille.func{name = "mine", forward = function() end, backward = identity}(a) end, "mine: forward must return a tensor, found nil"},
  {"no backward", function() rille.func{forward = identity} end, "func: backward must be a function, found nil"},
  {"a misspelt option", function() rille.func{forward = identity, backwards = identity} end, "unknown option 'backwards'"},
  {"a second derivative through an inner value", function() rille.grad(rille.grad(inner(t), {t}), {t}) end, "inner: a second derivative needs saved tensors"},
}
for _, m in ipairs(mistakes) do
  local good, why = pcall(m[2])
  tap.ok(not good and tostring(why):find(m[3], 1, true), m[1] .. " is an error", why)
end

-- ---- memory that saved values need ----

local swish = rille.func{name = "swish",
  forward = function(ctx, x)
    local s = x:sigmoid()
    ctx:save_for_backward(x, s)
    return x * s
  end,
  backward = function(ctx, dy)
    local x, s = table.unpack(ctx.saved_tensors)
    return dy * (s + x * s * (1 - s))
  end}
local Block = rille.nn.Module:extend("Block")
function Block:init() self.a, self.b, self.c = rille.nn.Linear(16, 64), rille.nn.Linear(64, 64), rille.nn.Linear(64, 16) end
function Block:forward(x) return x + self.c(swish(self.b(swish(self.a(x))))) end

-- Returns the peak bytes and the loss after two steps. again: true: the blocks are recomputed in backward.
local function peak(again, pieces)
  rille.manual_seed(1)
  local net = rille.nn.Sequential(Block(), Block(), Block(), Block(), Block(), Block())
  for i = 1, again and #net or 0 do net[i]:recompute() end
  local opt = rille.optim.SGD(net:parameters(), {lr = 0.01})
  local train = tap.training(opt, function(x) return net(x):square():mean() end, {micro_batches = pieces})
  local x = rille.randn{256, 16}
  train(x)
  local l = train(x):item()
  return train:stats().devices[1].peak_memory, l
end
for _, pieces in ipairs{1, 4} do
  local kept, l1 = peak(false, pieces)
  local again, l2 = peak(true, pieces)
  tap.ok(again < 0.65 * kept and l1 == l2, ("saved tensors and results are recomputed, in %d micro-batches: less memory, the same bits"):format(pieces),
    ("%d of %d"):format(again, kept))
end

local function live_bytes()
  collectgarbage()
  collectgarbage()
  return rille.counters().live_bytes
end
local before = live_bytes()
for _ = 1, 20 do
  local x = rille.ones({64, 64}, {requires_grad = true})
  gate(x, x, 1):sum():item()
end
tap.ok(live_bytes() - before < 2 * 64 * 64 * 4, "calls whose backward never runs are freed", live_bytes() - before)

tap.done()
