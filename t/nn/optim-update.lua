-- optim-update.lua - tests optimisers whose parameters, options, groups or state change between steps, and their errors.
-- t/nn/golden-optim.lua compares the updates with PyTorch's.
local tap = dofile("t/lib/tap.lua")
local nn, optim, T = rille.nn, rille.optim, rille.tensor
local P0 = rille.placement("cpu", {0, 1})

tap.group("the learning rate and the step count", function()
  local w = T({1}, {requires_grad = true})
  local opt = optim.AdamW({w}, {lr = 0, weight_decay = 0})
  local step = rille.graph(function() w:sum():backward(); opt:step(); opt:zero_grad() end)
  step(); step()
  tap.is({w:item(), opt.steps}, {1, 2}, "a step is counted once per call, also at rate 0")
  opt.lr = 0.1
  step()
  tap.near(w:item(), 0.9, "the next call uses opt.lr = 0.1")
  tap.is(opt.steps, 3, "the count continues")
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
  tap.near(w:totable(), {0.5, 1.5, 2.5, 3.5}, "a parameter with a new layout keeps its momentum")
  tap.is(opt.slots[1].m.sbp, "S(0)", "the momentum gets the new layout")
end)

-- Adds up a gradient in two backward passes, and moves or casts the parameters between them. An earlier step has left
-- optimiser state.
tap.group("parameters that change under an optimiser", function()
  local changes = {
    {"get new layouts one by one", function(net) for _, p in ipairs(net:parameters()) do p:to_global_{placement = P0, sbp = "S(0)"} end end},
    {"get new layouts together", function(net) net:to_global{placement = P0, sbp = "B"} end},
    {"are split by a recipe", function(net) rille.parallel(net:to_global{placement = P0, sbp = "B"}, {tensor = 0}) end},
    {"have their state split", function(net) rille.parallel(net:to_global{placement = P0, sbp = "B"}, {data = 0, zero = 2}) end},
    {"become f64", function(net) net:to("f64") end, "f64"},
    {"become f64 and get new layouts", function(net) net:to("f64"):to_global{placement = P0, sbp = "S(0)"} end, "f64"},
  }
  local kinds = { -- eps exceeds gradients that are only rounding noise, such as that of the keys' bias
    SGD = {lr = 0.1, momentum = 0.9}, Adam = {lr = 0.1, eps = 1e-2}, AdamW = {lr = 0.1, eps = 1e-2, weight_decay = 0.1}}
  local x = rille.arange(16):reshape{1, 4, 4}:to("f32") / 16 - 0.5
  local function trained(kind, change, compiled, dtype)
    rille.manual_seed(3)
    local net = nn.Sequential(nn.TransformerBlock(4, 2, {hidden = 8}))
    local opt = optim[kind](net:parameters(), kinds[kind])
    local function half(y) net(y):square():mean():backward() end
    local function whole(y) half(y); opt:step(); opt:zero_grad() end
    whole(x); half(x)
    if change then change(net) end
    local w = net[1].fc1.weight
    local run = compiled and rille.graph(whole) or whole
    run(x:to(w.dtype):to_global{placement = w.placement, sbp = "B"})
    if dtype then tap.is({w.dtype, opt.slots[1].m.dtype}, {dtype, dtype}, ("%s: the state becomes f64, too"):format(kind)) end
    local list = {}
    for _, p in ipairs(net:parameters()) do
      list[#list + 1] = p:to("f64"):to_global{placement = rille.placement("cpu", {0}), sbp = "B"}:reshape{-1}
    end
    return rille.concat(list, 0):totable()
  end
  for _, kind in ipairs{"SGD", "Adam", "AdamW"} do
    local want = trained(kind)
    for _, c in ipairs(changes) do
      for _, compiled in ipairs{false, true} do
        local name = ("%s%s: parameters %s and train equally"):format(kind, compiled and ", compiled" or "", c[1])
        tap.near(trained(kind, c[2], compiled, c[3]), want, name, 1e-5)
      end
    end
  end
end)

tap.group("state", function()
  local function make()
    local w = T({1, -2, 0.5}, {requires_grad = true})
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
  tap.is(w2:totable(), w:totable(), "an optimiser that loads another's state continues equally")
  tap.fails(function() opt2:load_state_dict{} end, {"steps", "missing"}, "a missing entry is named")
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
  end), want, "each group has its options, and the optimiser's defaults")

  local a, b = leaf(1), leaf(1)
  local opt = optim.SGD({{params = {a}}, {params = {b}, lr = 1}}, {lr = 0.25})
  local step = rille.graph(function() (a + b):sum():backward(); opt:step(); opt:zero_grad() end)
  step()
  opt.lr, opt.groups[2].lr = 0.5, 2
  step()
  tap.is({a:item(), b:item()}, {0.25, -2}, "a group keeps its own rate, also later and in a compiled step")
  tap.is(#opt:state_dict().steps.shape, 0, "groups share one state")
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
  line(function() optim.SGD({w}, {lr = 1}).learning_rate = 2 end, {"learning_rate"}, "an unknown option set later is named")
  line(function() optim.SGD({w}, {lr = -1}) end, {"lr", "-1"}, "a negative rate")
  line(function() optim.SGD({w}, {nesterov = true}) end, {"nesterov", "momentum"}, "nesterov without momentum")
  line(function() optim.Adam({w}, {betas = {0.9, 1}}) end, {"beta", "1"}, "a beta of 1")
  line(function() optim.Adam({}, {}) end, {"empty"}, "no parameters")
  line(function() optim.Adam({w, w}) end, {"twice"}, "a parameter that occurs twice")
  line(function() optim.Adam(w) end, {"list"}, "a tensor instead of a list")
  local function loss(x) return (w * x):sum() end
  local opt = optim.SGD({w}, {lr = 1})
  local step = rille.graph(function(x) loss(x):backward(); opt:step(); opt:zero_grad() end)
  step(T{1})
  for _, value in ipairs{-1, 0 / 0, "x", false} do
    local before = {w:item(), opt.steps}
    line(function() opt.lr = value end, {"optim.SGD: lr must be a number"}, "a rate that is set to " .. tostring(value))
    opt.lr = function() return value end
    loss(T{1}):backward()
    line(function() opt:step() end, {"optim.SGD: lr must be a number"}, "a schedule that returns " .. tostring(value))
    line(function() step(T{1}) end, {"optim.SGD: lr must be a number"}, "the same in a compiled step")
    opt:zero_grad()
    tap.is({w:item(), opt.steps}, before, "nothing is updated")
  end
  local state = optim.Adam({w}):state_dict()
  local function with(name, value)
    local changed = tap.with(state)
    changed[name] = value
    return function() optim.Adam({w}):load_state_dict(changed) end
  end
  line(function() opt:load_state_dict() end, {"optim.SGD:load_state_dict", "table", "nil"}, "no state")
  line(with("steps", T(1.5)), {"'steps'", "1.5"}, "half a step")
  line(with("steps", T{1}), {"'steps' is {}", "{1}"}, "steps in a list")
  line(with("0.m", T(1)), {"'0.m' is {1} here, {} in the loaded state"}, "a state of another shape, even if it could be broadcast")
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
  tap.fails(function() optim.cosine{lr = 1} end, {"steps"}, "a falling schedule needs its number of steps")
  for name, more in pairs{cosine = {steps = 12}, linear = {steps = 12}, constant = {}} do
    local function with(option, value)
      local o = {lr = 1, warmup = 4, steps = more.steps}
      if option then o[option] = value end
      return optim[name](o)
    end
    local rate = with()
    for _, t in ipairs{-1, -0.5, 0 / 0, -math.huge, "1", false} do
      tap.fails(function() rate(t) end, {"optim-update.lua:", "optim." .. name .. ": the step"},
        ("%s: step %s is refused"):format(name, t))
    end
    tap.fails(function() rate() end, {"the step", "nil"}, name .. ": a missing step is refused")
    local wrong = {lr = {-1, 0 / 0, "1"}, warmup = {-1, 0.5, 0 / 0, math.huge, "1"}}
    if more.steps then wrong.steps, wrong.min_lr = {3, -1, 5.5, 0 / 0, math.huge, "9"}, {-1, 0 / 0, false} end
    for option, values in pairs(wrong) do
      for _, value in ipairs(values) do
        tap.fails(function() with(option, value) end, {"optim-update.lua:", "optim." .. name .. ": " .. option},
          ("%s: %s = %s is refused"):format(name, option, value))
      end
    end
    tap.ok(rate(3) == 1 and rate(1e300) <= 1, name .. ": steps after the last are accepted")
  end
  tap.fails(function() optim.linear{lr = 1, steps = 0} end, {"steps", "a positive integer, found 0"}, "a schedule of 0 steps is refused")
end)

tap.group("a batch with an invalid label", function()
  for name, kind in pairs{SGD = {momentum = 0.9}, AdamW = {}} do
    local net, x = rille.nn.Linear(4, 3), rille.randn{2, 4}
    local opt = optim[name](net:parameters(), kind)
    local function train(label) return tap_update(opt, net(x):cross_entropy(rille.tensor({0, label}, {dtype = "i64"}))):item() end
    train(1)
    local before = net.weight:totable()
    tap.fails(function() train(7) end, {"label 7"}, name .. ": a label out of range is an error")
    tap.is({net.weight:totable(), net.weight.grad, opt.steps}, {before, nil, 1}, "the failed step updates nothing, and its gradients are gone")
    local good = {train(1), train(1)}
    tap.ok(good[2] < good[1], "the next batches are trained", good[1])
    tap.is(opt.steps, 3, "the next batches are counted")
  end
end)

tap.group("options that are set between steps", function()
  local w = T({0}, {requires_grad = true})
  local function step(opt, set)
    for name, value in pairs(set) do opt[name] = value end
    w.grad = T{1}
    opt:step()
    return w:totable()[1]
  end
  local opt = optim.SGD({w}, {lr = 1})
  tap.is({step(opt, {}), step(opt, {momentum = 0.5}), step(opt, {}), step(opt, {momentum = 0})}, {-1, -2, -3.5, -4.5},
    "momentum set later gets a buffer, momentum set to 0 leaves the buffer unused")
  local compiled = optim.SGD({w}, {lr = 1})
  compiled.momentum = 0.5
  local run = rille.graph(function(g)
    w.grad = g
    compiled:step()
    return g
  end)
  rille.no_grad(function() w:fill_(0) end)
  run(T{1}); run(T{1})
  tap.is(w:totable(), {-2.5}, "momentum set later works in a compiled step")
  local traced = 0
  for name, params in pairs{["an optimiser's"] = {w}, ["a group's"] = {{params = {w}}}} do
    local later = optim.SGD(params, {lr = 1})
    local of = name == "a group's" and later.groups[1] or later
    local run = rille.graph(function(g)
      traced = traced + 1
      w.grad = g
      later:step(); later:zero_grad()
      return g
    end)
    rille.no_grad(function() w:fill_(0) end)
    run(T{1}); run(T{1})
    local before = traced
    of.lr = 2; run(T{1}); of.lr = 1
    of.momentum = 0.5; run(T{1}); run(T{1})
    of.momentum = 0.5; run(T{1})
    tap.is({w:totable()[1], traced - before}, {-8.25, 1}, name .. " momentum set later is used in compiled steps, which are traced once more; lr causes no trace")
  end
  for _, row in ipairs{{"SGD", {momentum = -1}, "momentum must be a number of at least 0, found -1"}, {"SGD", {momentum = 0, nesterov = true}, "nesterov needs"},
    {"AdamW", {betas = {2, 3}}, "betas[1] must be below 1, found 2"}, {"AdamW", {betas = {0.9}}, "betas must be a list of two numbers"},
    {"Adam", {eps = "x"}, "eps must be a number"}} do
    local before = w:totable()
    tap.fails(function() step(optim[row[1]]({w}, {lr = 1}), row[2]) end, {"optim-update.lua:", row[1], row[3]}, row[1] .. " names the invalid value: " .. row[3])
    tap.is(w:totable(), before, "the refused step updates nothing")
  end
end)

-- Sets each option of each class and of its groups to invalid values: the assignment fails, and the earlier value stays.
tap.group("an invalid option is refused when it is set", function()
  local Mine = optim.class{name = "Mine", options = {lr = 1e-2, b = 0.9}, update = function(o, p, g) return p - g * o.lr * o.b end}
  local w = T({1}, {requires_grad = true})
  for _, class in ipairs{{optim.SGD, "momentum", "weight_decay", "nesterov"}, {optim.AdamW, "betas", "eps", "weight_decay"}, {Mine, "b"}} do
    local opt = class[1]({w}, {lr = 0.5})
    for _, of in ipairs{opt, opt.groups[1]} do
      for k = 1, #class do
        local name = k == 1 and "lr" or class[k]
        local before = of[name]
        for _, v in ipairs{"x", {}, T{1}} do
          local found = v == "x" and 'found "x"' or name == "betas" and type(v) == "table" and "found {}" or "found a"
          tap.fails(function() of[name] = v end, {"optim-update.lua:", ": " .. name .. " must be", found}, name .. " is refused")
          tap.is(of[name], before, name .. " keeps its value")
        end
      end
    end
    opt.lr = function(i) return 1 / (i + 1) end
    w.grad = T{1}
    opt:step()
    tap.is(opt.steps, 1, "a schedule is accepted, and the optimiser works after the errors")
  end
end)

-- Sets momentum after the first steps. A momentum from a checkpoint can then be loaded, and loading a snapshot from
-- before the change removes the momentum.
tap.group("momentum that is set later", function()
  local function new()
    local w = rille.ones({2}, {requires_grad = true})
    return w, optim.SGD({w}, {lr = 0.1})
  end
  local function step(w, opt) (w * w):sum():backward() opt:step() opt:zero_grad() end
  local w, opt = new()
  opt.momentum = 0.9
  step(w, opt)
  local _, other = new()
  other.groups[1].momentum = 0.9
  other:load_state_dict(opt:state_dict())
  tap.is(other.slots[1].m:totable(), opt.slots[1].m:totable(), "momentum is loaded")
  local v, late = new()
  step(v, late)
  rille.snapshot()
  late.momentum = 0.9
  step(v, late)
  rille.recover()
  tap.is({late.momentum, late.slots[1].m}, {0, nil}, "recover() to an earlier snapshot removes the momentum")
  tap.fails(function() late.momentum = "much" end, {"momentum", "much"}, "a value that is no number is refused")
  local one, two = optim.Adam({v}), optim.Adam({w})
  one.betas[1] = 0.5
  tap.is(two.betas[1], 0.9, "two optimisers do not share their lists")
end)

tap.group("parameters and groups are fixed", function()
  local w, v = T({1}, {requires_grad = true}), T({2}, {requires_grad = true})
  local opt = optim.SGD({{params = {w}}, {params = {v}, lr = 1}})
  for what, edit in pairs{
    ["the list of parameters cannot be changed"] = function() opt.params[1] = v end, ["list of parameters cannot be changed"] = function() table.insert(opt.groups[1].params, v) end,
    ["the list of groups cannot be changed"] = function() opt.groups[3] = {params = {w}} end, ["'params' cannot be changed"] = function() opt.params = {w} end,
    ["'slots' cannot be changed"] = function() opt.slots = {} end, ["'groups' cannot be changed"] = function() opt.groups = nil end,
    ["unknown option 'params'"] = function() opt.groups[1].params = {} end} do
    tap.fails(edit, {"optim-update.lua:", "optim.SGD: ", what}, "an edit is refused: " .. what)
  end
  tap.is({#opt.params, #opt.groups, rawequal(opt.params[2], v)}, {2, 2, true}, "refused edits change nothing")
  local seen = 0
  for _ in pairs(opt.params) do seen = seen + 1 end
  for _ in ipairs(opt.groups) do seen = seen + 1 end
  tap.is(seen, 4, "params and groups can be walked like lists")
  local g, h = rille.grad((w * v):sum(), opt.params)
  tap.is({g:item(), h:item()}, {2, 1}, "rille.grad accepts them as lists")
  tap.ok(pcall(optim.Adam, opt.params) and tostring(opt.params) == "a list of 2 parameters", "another optimiser accepts the list")
  tap.ok(tostring(opt.groups[2]):find("optim.SGD(1 parameters, lr = 1,", 1, true), "a group prints as its optimiser does")
end)

-- Sets every option to values of every type. The call must work, or the error must name the optimiser and the option.
tap.group("values of every kind", function()
  local loose = setmetatable({}, {__index = function() return 1 end})
  local values = {-1, 0, 0.5, 2.0 ^ 63, math.huge, 0 / 0, "x", "1", true, false, {}, {0.5, 0.5}, {0.5, "x"}, {{}, 1}, {0.5, 0.5, 0.5}, {a = 1},
    print, T{1}, coroutine.create(print), io.stderr, loose}
  local wrong, tried, refused = {}, 0, 0
  local function try(what, words, fn)
    local good, why = pcall(fn)
    why, tried, refused = tostring(why), tried + 1, refused + (good and 0 or 1)
    local named = good or why:find("optim-update.lua:", 1, true) and not why:find("attempt to", 1, true)
    for _, word in ipairs(words) do named = named and (good or why:find(word, 1, true)) end
    if not named then wrong[#wrong + 1] = what .. ": " .. why end
  end
  local w = T({1}, {requires_grad = true})
  for i = 0, #values do
    local v = values[i]
    local of = v == nil and "nil" or ("value %d, a %s"):format(i, type(v))
    for kind, options in pairs{SGD = {"lr", "momentum", "weight_decay", "nesterov"}, Adam = {"lr", "betas", "eps", "weight_decay"}} do
      local who = "optim." .. kind
      for _, name in ipairs(options) do
        local words = {who .. ": " .. name}
        local function updated(opt)
          w.grad = T{1}
          opt:step()
        end
        local opt = optim[kind]({w})
        local step = rille.graph(function(g)
          w.grad = g
          opt:step(); opt:zero_grad()
          return g
        end)
        w.grad = nil
        step(T{1})
        try(name .. " = " .. of, words, function() updated(optim[kind]({w}, {[name] = v})) end)
        try(name .. " of a group = " .. of, words, function() updated(optim[kind]({{params = {w}, [name] = v}})) end)
        try("opt." .. name .. " = " .. of, words, function() opt[name] = v; step(T{1}) end)
        try("the same, printed: " .. of, {}, function() return tostring(opt) .. tostring(opt.groups[1]) end)
        try("opt." .. name .. " = " .. of .. ", eager", words, function() updated(opt) end)
        local other = optim[kind]({w})
        try("a group's " .. name .. " = " .. of, words, function() other.groups[1][name] = v; updated(other) end)
      end
      local opt = optim[kind]({w})
      try("opt.steps = " .. of, {who .. ": steps must be an integer"}, function() opt.steps = v end)
      try("opt[key] = 1, key: " .. of, {who}, function() opt[v ~= nil and v == v and v or "key"] = 1 end)
      try("parameters: " .. of, {who}, function() optim[kind](v) end)
      try("a parameter: " .. of, {who}, function() optim[kind]({w, v}) end)
      try("a group: " .. of, {who}, function() optim[kind]({{params = {w}}, v}) end)
      try("params of a group: " .. of, {who}, function() optim[kind]({{params = v}}) end)
      try("options: " .. of, {who}, function() optim[kind]({w}, v) end)
      try("a state: " .. of, {who .. ":load_state_dict"}, function() opt:load_state_dict(v) end)
      try("steps of a state: " .. of, {who .. ":load_state_dict"}, function()
        local state = opt:state_dict()
        state.steps = v
        opt:load_state_dict(state)
      end)
    end
    w.grad = T{1}
    try("a limit: " .. of, {"optim.clip_grad_norm: the limit"}, function() optim.clip_grad_norm({w}, v) end)
    try("parameters to clip: " .. of, {"optim.clip_grad_norm"}, function() optim.clip_grad_norm(v, 1) end)
    try("a parameter to clip: " .. of, {"optim.clip_grad_norm"}, function() optim.clip_grad_norm({v, w}, 1) end)
    for name, options in pairs{cosine = {"lr", "min_lr", "warmup", "steps"}, linear = {"lr", "min_lr", "warmup", "steps"}, constant = {"lr", "warmup"}} do
      local function given() return {lr = 1, steps = name ~= "constant" and 9 or nil} end
      for _, option in ipairs(options) do
        try(name .. "'s " .. option .. ": " .. of, {"optim." .. name .. ": " .. option}, function()
          local o = given()
          o[option] = v
          optim[name](o)(3)
        end)
      end
      try(name .. "'s options: " .. of, {"optim." .. name}, function() optim[name](v) end)
      try(name .. "'s step: " .. of, {"optim." .. name .. ": the step"}, function() optim[name](given())(v) end)
    end
  end
  tap.is(wrong, {}, ("%d tries, %d of them refused with the expected value"):format(tried, refused))
end)

tap.group("frozen parameters", function()
  local net = rille.nn.Linear(2, 2)
  net.weight:requires_grad_(false)
  local opt = rille.optim.Adam(net:parameters(), {lr = 0.1})
  local before = net.weight:totable()
  net(rille.ones{1, 2}):sum():backward(); opt:step(); opt:zero_grad()
  tap.is(net.weight:totable(), before, "frozen parameters are not updated")
  net.weight:requires_grad_(true)
  net(rille.ones{1, 2}):sum():backward(); opt:step()
  tap.ok((net.weight - rille.tensor(before)):abs():sum():item() > 0, "unfrozen parameters are updated")
  for _, p in ipairs(net:parameters()) do p:requires_grad_(false) end
  before = net.weight:totable()
  local frozen = rille.optim.SGD(net:parameters(), {lr = 1})
  frozen:zero_grad()
  frozen:step()
  tap.is(net.weight:totable(), before, "a step of parameters that are all frozen changes nothing")
  net.weight:requires_grad_(true)
  net(rille.ones{1, 2}):sum():backward(); frozen:step()
  tap.ok((net.weight - rille.tensor(before)):abs():sum():item() > 0, "one that is unfrozen later is trained")
end)

tap.done()
