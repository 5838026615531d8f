-- Optimisers against their formulas, as plain loops over numbers; all combinations of options.
local tap = dofile("t/tap.lua")
local rille = require "rille"
local optim, T = rille.optim, rille.tensor
local P0 = rille.placement("cpu", {0, 1})

local START, SLOPE = {1, -2, 0.5}, {0.5, 1, -2}

-- The gradient of sum(slope * w^2) at w.
local function gradient(w, i) return 2 * SLOPE[i] * w end

local formulas = {}
function formulas.SGD(o, w, g, s)
  g = g + (o.weight_decay or 0) * w
  if (o.momentum or 0) == 0 then return w - o.lr * g end
  s.m = o.momentum * (s.m or 0) + g
  return w - o.lr * (o.nesterov and g + o.momentum * s.m or s.m)
end
local function adam(o, w, g, s, t)
  local b1, b2 = 0.9, 0.999
  if o.betas then b1, b2 = o.betas[1], o.betas[2] end
  s.m = b1 * (s.m or 0) + (1 - b1) * g
  s.v = b2 * (s.v or 0) + (1 - b2) * g * g
  return w - o.lr * (s.m / (1 - b1 ^ t)) / (math.sqrt(s.v / (1 - b2 ^ t)) + (o.eps or 1e-8))
end
function formulas.Adam(o, w, g, s, t) return adam(o, w, g + (o.weight_decay or 0) * w, s, t) end
function formulas.AdamW(o, w, g, s, t)
  return adam(o, w, g, s, t) - o.lr * (o.weight_decay or 0.01) * w
end

local function expected(kind, o, steps)
  local w, state = table.move(START, 1, 3, 1, {}), {{}, {}, {}}
  for t = 1, steps do
    for i = 1, 3 do w[i] = formulas[kind](o, w[i], gradient(w[i], i), state[i], t) end
  end
  return w
end

-- Steps of an optimiser over two parameters; compiled: as a graph; sbp: both split over two devices (one has one element).
local function run(kind, o, steps, compiled, sbp)
  local how = sbp and {placement = P0, sbp = sbp} or {sbp = "B"}
  local function place(values) return T(values):to_global(how) end
  local w = {T({START[1]}, {requires_grad = true}), T({START[2], START[3]}, {requires_grad = true})}
  local slope = {place{SLOPE[1]}, place{SLOPE[2], SLOPE[3]}}
  for _, p in ipairs(w) do p:to_global_(how) end
  local opt = optim[kind](w, o)
  local function step()
    local loss = (w[1] * w[1] * slope[1]):sum() + (w[2] * w[2] * slope[2]):sum()
    loss:backward(); opt:step(); opt:zero_grad()
    return loss
  end
  local go = compiled and rille.graph(step) or step
  for _ = 1, steps do go() end
  return table.move(w[2]:totable(), 1, 2, 2, w[1]:totable())
end

local cases = {}
for _, momentum in ipairs{0, 0.9} do
  for _, weight_decay in ipairs{0, 0.1} do
    for _, nesterov in ipairs{false, true} do
      if momentum > 0 or not nesterov then
        cases[#cases + 1] = {"SGD", {lr = 0.05, momentum = momentum, weight_decay = weight_decay, nesterov = nesterov}}
      end
    end
  end
end
for _, kind in ipairs{"Adam", "AdamW"} do
  for _, weight_decay in ipairs{0, 0.1} do
    for _, betas in ipairs{{0.9, 0.999}, {0.5, 0.9}} do
      for _, eps in ipairs{1e-8, 1e-2} do
        cases[#cases + 1] = {kind, {lr = 0.05, weight_decay = weight_decay, betas = betas, eps = eps}}
      end
    end
  end
end

for _, case in ipairs(cases) do
  local kind, o = case[1], case[2]
  tap.group(kind, function()
    local want, text = expected(kind, o, 4), {}
    for k, v in pairs(o) do text[#text + 1] = k .. " " .. (type(v) == "table" and table.concat(v, ",") or tostring(v)) end
    table.sort(text)
    text = kind .. " " .. table.concat(text, ", ")
    tap.near(run(kind, o, 4), want, text, 1e-5, 1e-6)
    tap.near(run(kind, o, 4, true), want, text .. ", compiled", 1e-5, 1e-6)
    tap.near(run(kind, o, 4, false, "S(0)"), want, text .. ", split", 1e-5, 1e-6)
    tap.near(run(kind, o, 4, true, "S(0)"), want, text .. ", compiled, split", 1e-5, 1e-6)
  end)
end

tap.group("the learning rate and the step count", function()
  local w = T({1}, {requires_grad = true})
  local opt = optim.AdamW({w}, {lr = 0, weight_decay = 0})
  local step = rille.graph(function()
    w:sum():backward(); opt:step(); opt:zero_grad()
  end)
  step(); step()
  tap.is({w:item(), opt.steps}, {1, 2}, "a step is counted once a call, also when nothing moves")
  opt.lr = 0.1
  step()
  tap.near(w:item(), 0.9, "opt.lr = 0.1 is what the next call uses")
  tap.is(opt.steps, 3, "and the count goes on")
  local compiles = rille.counters().compiles
  for i = 1, 5 do opt.lr = 0.01 * i; step() end
  tap.is(rille.counters().compiles, compiles, "a schedule compiles nothing")
end)

tap.group("layouts", function()
  local w = T({1, 2, 3, 4}, {requires_grad = true})
  local opt = optim.SGD({w}, {lr = 0.1, momentum = 0.5})
  local function step() (w * 2):sum():backward(); opt:step(); opt:zero_grad() end
  step()
  w:to_global_{placement = P0, sbp = "S(0)"}
  step()
  tap.near(w:totable(), {0.5, 1.5, 2.5, 3.5}, "a parameter that is laid out anew keeps its momentum")
  tap.is(opt.slots[1].m.sbp, "S(0)", "which follows it")
end)

tap.group("state", function()
  local function make()
    local w = T(START, {requires_grad = true})
    local opt = optim.AdamW({w}, {lr = 0.1})
    return w, opt, function() (w * w):sum():backward(); opt:step(); opt:zero_grad() end
  end
  local w, opt, step = make()
  step(); step()
  local values, state = w:totable(), opt:state_dict()
  step()
  local w2, opt2, step2 = make()
  rille.no_grad(function() w2:copy_(T(values)) end)
  opt2:load_state_dict(state)
  step2()
  tap.is(w2:totable(), w:totable(), "an optimiser that loads another's state goes on as that one")
  tap.fails(function() opt2:load_state_dict{} end, {"steps", "missing"}, "what is missing is named")
end)

tap.group("groups", function()
  local function leaf(v) return T({v}, {requires_grad = true}) end
  local function train(make)
    local a, b = leaf(1), leaf(2)
    local opts = make(a, b)
    for i = 1, 3 do
      (a * a + b * b):sum():backward()
      for _, opt in ipairs(opts) do opt.lr = 0.1 * i; opt:step() end
      opts[1]:zero_grad()
      b.grad = nil
    end
    return {a:item(), b:item()}
  end
  local want = train(function(a, b)
    return {optim.AdamW({a}, {lr = 0.1, weight_decay = 0.5, betas = {0.5, 0.9}}), optim.AdamW({b}, {lr = 0.1, weight_decay = 0})}
  end)
  tap.is(train(function(a, b)
    return {optim.AdamW({{params = {a}, weight_decay = 0.5, betas = {0.5, 0.9}}, {params = {b}}}, {lr = 0.1, weight_decay = 0})}
  end), want, "each group has its options, and the optimiser's for the rest")

  local a, b = leaf(1), leaf(1)
  local opt = optim.SGD({{params = {a}}, {params = {b}, lr = 1}}, {lr = 0.25})
  local step = rille.graph(function() (a + b):sum():backward(); opt:step(); opt:zero_grad() end)
  step()
  opt.lr, opt.groups[2].lr = 0.5, 2
  step()
  tap.is({a:item(), b:item()}, {0.25, -2}, "a group's own rate is its own, also later and in a compiled step")
  tap.is(#opt:state_dict().steps.shape, 0, "groups have one state")
  local function line(f, texts, name) texts[#texts + 1] = "optim-update.lua"; tap.fails(f, texts, name) end
  line(function() optim.SGD({{params = {a}, rate = 1}}) end, {"'rate'", "params, lr"}, "an unknown option of a group is named")
  line(function() optim.SGD({{a}}) end, {"group 1", "params"}, "a group without params")
  line(function() optim.SGD({{params = {a}}, {params = {a}}}) end, {"twice"}, "a parameter in two groups")
  line(function() optim.SGD({{params = {a}, lr = -1}}) end, {"lr", "-1"}, "a negative rate of a group")
end)

tap.group("mistakes", function()
  local w = T({1}, {requires_grad = true})
  local function line(f, texts, name) texts[#texts + 1] = "optim-update.lua"; tap.fails(f, texts, name) end
  line(function() optim.SGD({w}, {learning_rate = 1}) end, {"learning_rate", "lr, momentum"}, "an unknown option is named")
  line(function() optim.SGD({w}, {lr = 1}).learning_rate = 2 end, {"learning_rate"}, "also when it is set later")
  line(function() optim.SGD({w}, {lr = -1}) end, {"lr", "-1"}, "a negative rate")
  line(function() optim.SGD({w}, {nesterov = true}) end, {"nesterov", "momentum"}, "nesterov without momentum")
  line(function() optim.Adam({w}, {betas = {0.9, 1}}) end, {"beta", "1"}, "a beta of 1")
  line(function() optim.Adam({}, {}) end, {"empty"}, "no parameters")
  line(function() optim.Adam({w, w}) end, {"twice"}, "a parameter that is there twice")
  line(function() optim.Adam({T{1}}) end, {"gradient"}, "a tensor without a gradient")
  line(function() optim.Adam(w) end, {"list"}, "a tensor instead of a list")
  local function loss(x) return (w * x):sum() end
  local opt = optim.SGD({w}, {lr = 1})
  local step = rille.graph(function(x) loss(x):backward(); opt:step(); opt:zero_grad() end)
  step(T{1})
  for _, value in ipairs{-1, 0 / 0, "x", false} do
    local before = {w:item(), opt.steps}
    opt.lr = value
    loss(T{1}):backward()
    line(function() opt:step() end, {"optim.SGD: lr is a number"}, "a rate that was set to " .. tostring(value))
    line(function() step(T{1}) end, {"optim.SGD: lr is a number"}, "in a compiled step too")
    opt:zero_grad()
    tap.is({w:item(), opt.steps}, before, "nothing was updated")
  end
  local state = optim.Adam({w}):state_dict()
  local function with(name, value)
    local changed = {}
    for k, v in pairs(state) do changed[k] = v end
    changed[name] = value
    return function() optim.Adam({w}):load_state_dict(changed) end
  end
  line(function() opt:load_state_dict() end, {"optim.SGD:load_state_dict", "table", "nil"}, "no state")
  line(with("steps", T(1.5)), {"'steps'", "1.5"}, "half a step")
  line(with("steps", T{1}), {"'steps' is {}", "{1}"}, "steps in a list")
  line(with("0.m", T(1)), {"'0.m' is {1} here, {} in what"}, "a state of another shape, though it could be repeated")
  line(with("0.v", 1), {"'0.v' is missing"}, "a number for a state")
end)

tap.group("schedules", function()
  local cosine = optim.cosine{lr = 1, min_lr = 0.1, warmup = 4, steps = 12}
  local linear = optim.linear{lr = 1, min_lr = 0.2, warmup = 0, steps = 8}
  tap.near({cosine(0), cosine(3), cosine(4), cosine(8), cosine(12), cosine(99)}, {0.25, 1, 1, 0.55, 0.1, 0.1},
    "cosine: warm-up, fall, rest")
  tap.near({linear(0), linear(4), linear(8)}, {1, 0.6, 0.2}, "linear")
  local constant = optim.constant{lr = 3, warmup = 2}
  tap.near({constant(0), constant(1), constant(1000)}, {1.5, 3, 3}, "constant")
  tap.fails(function() optim.cosine{lr = 1} end, {"steps"}, "a schedule that falls wants its steps")
  for name, more in pairs{cosine = {steps = 12}, linear = {steps = 12}, constant = {}} do
    local function with(option, value)
      local o = {lr = 1, warmup = 4, steps = more.steps}
      if option then o[option] = value end
      return optim[name](o)
    end
    local rate = with()
    for _, t in ipairs{-1, -0.5, 0 / 0, -math.huge, "1", false} do
      tap.fails(function() rate(t) end, {"optim-update.lua:", "optim." .. name .. ": the step"},
        ("%s: a step is not %s"):format(name, t))
    end
    tap.fails(function() rate() end, {"the step", "nil"}, name .. ": nor nothing")
    local wrong = {lr = {-1, 0 / 0, "1"}, warmup = {-1, 0.5, 0 / 0, math.huge, "1"}}
    if more.steps then wrong.steps, wrong.min_lr = {3, -1, 5.5, 0 / 0, math.huge, "9"}, {-1, 0 / 0, false} end
    for option, values in pairs(wrong) do
      for _, value in ipairs(values) do
        tap.fails(function() with(option, value) end, {"optim-update.lua:", "optim." .. name .. ": " .. option},
          ("%s: %s is not %s"):format(name, option, value))
      end
    end
    tap.ok(rate(3) == 1 and rate(1e300) <= 1, name .. ": steps after the last are fine")
  end
  tap.fails(function() optim.linear{lr = 1, steps = 0} end, {"steps", "at least 1"}, "a schedule of no steps is none")
end)

tap.group("a batch that cannot be learnt from", function()
  for name, kind in pairs{SGD = {momentum = 0.9}, AdamW = {}} do
    local net, x = rille.nn.Linear(4, 3), rille.randn{2, 4}
    local opt = optim[name](net:parameters(), kind)
    local function train(label)
      local loss = net(x):cross_entropy(rille.tensor({0, label}, {dtype = "i64"}))
      loss:backward() opt:step() opt:zero_grad()
      return loss:item()
    end
    train(1)
    local before = net.weight:totable()
    tap.fails(function() train(7) end, {"label 7"}, name .. ": a label out of range is an error")
    tap.is({net.weight:totable(), net.weight.grad, opt.steps}, {before, nil, 1}, "the step did not happen, and its gradients are gone")
    local good = {train(1), train(1)}
    tap.ok(good[2] < good[1], "the next batches are learnt from", good[1])
    tap.is(opt.steps, 3, "and counted")
  end
end)

tap.done()
