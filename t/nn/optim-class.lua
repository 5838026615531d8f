-- optim-class.lua - tests optim.class: an AdamW written in tensor operations equals optim.AdamW, eager and compiled, in every
-- layout, with ZeRO, micro-batches, groups, schedules and checkpoints. Also opt:add_param_group and norm types of clipping.
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim

rille.manual_seed(tap.seed(5))
local dir = tap.folder() .. "/x"

local Mine = optim.class{name = "Mine", options = {lr = 1e-3, b1 = 0.9, b2 = 0.999, eps = 1e-8, weight_decay = 0.01}, state = {"m", "v"},
  update = function(o, p, g, state)
    local m, v = state.m * o.b1 + g * (1 - o.b1), state.v * o.b2 + g * g * (1 - o.b2)
    local root = (v / (1 - o.b2 ^ o.step)):sqrt() + o.eps
    return p * (1 - o.lr * o.weight_decay) - m / (1 - o.b1 ^ o.step) / root * o.lr, {m = m, v = v}
  end}

local P1, P2, P4, P22 = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1}), rille.placement("cpu", {0, 1, 2, 3}), rille.placement("cpu", {{0, 1}, {2, 3}})
local X = rille.randn{8, 6}

local function new_net(dtype)
  rille.manual_seed(9)
  local net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 4))
  return dtype and net:to(dtype) or net
end

-- Trains for n steps and returns the parameters as one list. how: {place, recipe, micro_batches, eager}.
local function trained(Class, n, how)
  local net = new_net(how.dtype)
  net:to_global{placement = how.place, sbp = #how.place.shape == 2 and {"B", "B"} or "B"}
  if how.recipe then rille.parallel(net, how.recipe) end
  local a, b = net[1]:parameters(), net[3]:parameters()
  local opt = Class({{params = a, weight_decay = 0.1}, {params = b, lr = 0.02}}, {lr = 0.01})
  local function train(x) return tap_update(opt, net(x):square():mean()) end
  local step = how.eager and train or rille.graph(train, {micro_batches = how.micro_batches})
  local x = X:to_global{placement = how.place, sbp = how.x or "B"}
  if how.dtype then x = x:to(how.dtype) end
  local rate = optim.linear{lr = 0.01, warmup = 2, steps = 8}
  for i = 1, n do
    opt.lr = rate(i - 1)
    step(x)
  end
  local list = tap.list(net:parameters(), function(p) return p:to("f32"):totable() end)
  return list, net, opt
end

local cases = {
  {"one device, eager", place = P1, eager = true},
  {"one device", place = P1},
  {"4 micro-batches", place = P1, micro_batches = 4},
  {"rows split", place = P4, x = "S(0)"},
  {"rows split, eager", place = P4, x = "S(0)", eager = true},
  {"zero 1", place = P4, x = "S(0)", recipe = {data = 0, zero = 1}},
  {"zero 2", place = P4, x = "S(0)", recipe = {data = 0, zero = 2}},
  {"zero 3", place = P4, x = "S(0)", recipe = {data = 0, zero = 3}},
  {"zero 3, eager", place = P4, x = "S(0)", recipe = {data = 0, zero = 3}, eager = true},
  {"HSDP", place = P22, x = {"S(0)", "S(0)"}, recipe = {data = {0, 1}, zero = 3, zero_axes = 1}, },
  {"bf16", place = P1, dtype = "bf16"},
  {"stages", place = P1, recipe = {stages = {P1, rille.placement("cpu", {1})}}, micro_batches = 4},
  {"stages, zero 1", place = P2, x = "S(0)", recipe = {stages = {P2, rille.placement("cpu", {2, 3})}, data = 0, zero = 1}, micro_batches = 2},
  {"stages, zero 3", place = P2, x = "S(0)", recipe = {stages = {P2, rille.placement("cpu", {2, 3})}, data = 0, zero = 3}, micro_batches = 2},
}
for _, how in ipairs(cases) do
  local want, _, theirs = trained(optim.AdamW, 6, how)
  local got, _, mine = trained(Mine, 6, how)
  tap.near(got, want, how[1] .. ": parameters equal AdamW's", how.dtype and 1e-2 or 1e-4, how.dtype and 1e-2 or 1e-5)
  local same = true
  for i, slot in ipairs(mine.slots) do same = same and slot.m.sbp == theirs.slots[i].m.sbp and slot.m.dtype == "f32" end
  tap.ok(same, how[1] .. ": state is sharded like AdamW's")
end

-- ---- checkpoints of optimisers ----

local want = trained(Mine, 6, cases[2])
local _, net, opt = trained(Mine, 3, cases[2])
rille.checkpoint.save(dir, {model = net, optimizer = opt})
local again, resumed = new_net(), nil
resumed = Mine({{params = again[1]:parameters()}, {params = again[3]:parameters()}}, {lr = 1})
rille.checkpoint.load(dir, {model = again, optimizer = resumed})
local rate = optim.linear{lr = 0.01, warmup = 2, steps = 8}
for i = 3, 5 do
  resumed.lr = rate(i)
  again(X):square():mean():backward()
  resumed:step()
  resumed:zero_grad()
end
local list = tap.list(again:parameters(), function(p) return p:totable() end)
tap.near(list, want, "a training that is resumed from a checkpoint gives the same parameters", 1e-5, 1e-6)
tap.is({resumed.steps, resumed.groups[1].weight_decay, resumed.groups[2].lr}, {6, 0.1, 0.02}, "options and counts are in the checkpoint")
tap.fails(function() rille.checkpoint.load(dir, {model = again, optimizer = optim.AdamW(again:parameters())}) end,
  {"the optimizer is optim.AdamW here, Mine in the checkpoint"}, "another class is refused")

local state = opt:state_dict()
local other = Mine({{params = net[1]:parameters()}, {params = net[3]:parameters()}})
other:load_state_dict(state)
tap.is(other.slots[1].m:totable(), opt.slots[1].m:totable(), "state_dict and load_state_dict carry the state")

-- Saves after 3 steps in each layout, and loads in the next layout of the list. A parameter group is added after the
-- first step, and one parameter is frozen until the last step.
do
  -- Makes an optimiser with a schedule. Returns the state to save, and a function that runs training step i.
  local function begin(how)
    local net = new_net()
    net:to_global{placement = how.place, sbp = #how.place.shape == 2 and {"B", "B"} or "B"}
    if how.recipe then rille.parallel(net, how.recipe) end
    local frozen = net[3].bias:requires_grad_(false)
    local o = Mine({net[1].weight, net[3].weight, frozen}, {lr = optim.linear{lr = 0.1, warmup = 2, steps = 8}})
    local function train(x)
      local loss = net(x):square():mean()
      loss:backward(); o:step(); o:zero_grad()
      return loss
    end
    local step = how.eager and train or rille.graph(train, {micro_batches = how.micro_batches})
    local x = X:to_global{placement = how.place, sbp = how.x or "B"}
    return {model = net, optimizer = o}, function(i)
      if i == 2 then o:add_param_group{params = {net[1].bias}, lr = 0.3} end
      if i == 6 then frozen:requires_grad_(true) end
      step(x)
    end
  end
  local function values(parts)
    local list = {}
    for i, p in ipairs(parts.model:parameters()) do list[i] = p:totable() end
    return list
  end
  local one, train = begin(cases[2])
  for i = 1, 6 do train(i) end
  local want, mostly = values(one), {}
  for _, how in ipairs(cases) do mostly[#mostly + 1] = not how.dtype and how or nil end
  for k, how in ipairs(mostly) do
    local parts, first = begin(how)
    for i = 1, 3 do first(i) end
    rille.checkpoint.save(dir .. "/meshes", parts, {keep = 1})
    local other = mostly[k % #mostly + 1]
    local again, go = begin(other)
    again.optimizer:add_param_group{params = {again.model[1].bias}, lr = 1}
    rille.checkpoint.load(dir .. "/meshes", again)
    for i = 4, 6 do go(i) end
    tap.near(values(again), want, ("saved on %s, loaded on %s: training goes on"):format(how[1], other[1]), 1e-4, 1e-5)
  end
end

-- Tries updates that decide by the step number or the learning rate, in the function `update` itself or in a function
-- that it calls. A compiled step must take the same branch as the plain function.
do
  local function is_even(o) return o.step % 2 == 0 end
  for name, update in tap.sorted{
    step = function(o, p, g) if o.step % 3 == 0 then return p - g end return p - g * o.lr end,
    ["a helper"] = function(o, p, g) return is_even(o) and p - g * 2 or p - g * o.lr end,
    rate = function(o, p, g) if o.lr == 0.25 then return p + g end return p - g * o.lr * o.step end,
    order = function(o, p, g) if o.step < 3 then return p + g end return p - g * o.lr end,
    ["a list"] = function(o, p, g) return p - g * (({3, 1, 2})[o.step] or o.lr) end,
    ["a text"] = function(o, p, g) return p - g * #tostring(o.step * 5) end,
    ["a caught error"] = function(o, p, g) return p - g * (pcall(math.sqrt, o.step) and 2 or o.lr) end,
    ["options that are constant"] = function(o, p, g)
      local names = {"lr"}
      if o.decay == 0 then g = g * 2 end
      local lr = o[names[1]]
      return p - g * lr * 0.5 ^ o.step
    end} do
    local Own = optim.class{name = "Own", options = {lr = 0.5, decay = 0}, update = update}
    local step
    local function run(in_step)
      local p = rille.tensor({1, 2}, {requires_grad = true})
      local o = Own({p})
      local function train(x) (p * x):sum():backward(); o:step(); o:zero_grad() end
      local list = {}
      step = in_step and rille.graph(train) or train
      for i = 1, 6 do
        o.lr = i > 3 and 0.25 or 0.5
        step(rille.tensor{i, 1})
        list[i] = p:totable()
      end
      return list
    end
    local got = run(true)
    local traces = tonumber(tostring(step):match("(%d+) trace"))
    tap.is(got, run(false), "update decides by " .. name .. ": compiled steps equal eager ones")
    if name == "options that are constant" then tap.ok(traces <= 2, "which cause no trace per step", traces) end
  end
end

-- Checks options whose values are functions, and classes whose options changed after their state was saved.
do
  local function class(options) return optim.class{name = "Own", options = options, update = function(o, p, g) return p - g * o.lr end} end
  local p = rille.tensor({1, 2}, {requires_grad = true})
  local function cut(g) return g:clamp(-1, 1) end
  local saved = class({lr = 0.1, cut = cut, old = 2})({p}, {old = 3})
  rille.checkpoint.save(dir, {optimizer = saved})
  saved.old = 4
  rille.checkpoint.load(dir, {optimizer = saved})
  tap.is({saved.old, saved.cut == cut}, {3, true}, "a function as an option stays, and other options are loaded")
  local more = class({lr = 0.2, cut = cut, old = 1, new = 5})({p})
  rille.checkpoint.load(dir, {optimizer = more})
  tap.is({more.lr, more.old, more.new}, {0.1, 3, 5}, "an option that the checkpoint lacks keeps its value")
  local less = class({lr = 0.2, cut = cut})({p})
  tap.fails(function() rille.checkpoint.load(dir, {optimizer = less}) end, {"the optimizer in the checkpoint has an option 'old', unknown here"},
    "a saved option that the class lacks is an error")
  tap.is(less.lr, 0.2, "which changes nothing")
end

-- ---- schedules ----

for _, Class in ipairs{optim.AdamW, Mine, optim.SGD} do
  for _, compiled in ipairs{false, true} do
    local function schedule() return optim.cosine{lr = 0.1, min_lr = 0.01, warmup = 2, steps = 8} end
    -- Returns the parameter after 6 steps. by_hand: true: the program sets the rate in each step; resumes: true:
    -- loads a checkpoint into a second optimiser, which makes the remaining steps.
    local function run(by_hand, resumes)
      local p = rille.tensor({1, 2}, {requires_grad = true})
      local o = Class({p}, {lr = by_hand and 0.1 or schedule()})
      local function train() (p * p):sum():backward(); o:step(); o:zero_grad() end
      local step = compiled and rille.graph(train) or train
      for i = 0, 5 do
        if by_hand then o.lr = schedule()(i) end
        if resumes and i == 3 then
          rille.checkpoint.save(dir, {optimizer = o, step = i})
          local q = p:detach():clone():requires_grad_(true)
          p, o = q, Class({q}, {lr = schedule()})
          rille.checkpoint.load(dir, {optimizer = o})
        end
        step()
      end
      return p:totable(), o
    end
    local want, how = run(true), compiled and "compiled" or "eager"
    local got, o = run(false)
    local name = tostring(o):match("^[%w.]+")
    tap.near(got, want, ("%s, %s: a schedule as lr is that of a loop"):format(name, how), 1e-6)
    tap.near(run(false, true), want, ("%s, %s: and goes on after a checkpoint"):format(name, how), 1e-6)
    tap.is(o.steps, 6, "after 6 steps")
  end
end
tap.fails(function()
  local p = rille.tensor({1}, {requires_grad = true})
  local o = optim.SGD({p}, {lr = function() return "x" end})
  p:sum():backward()
  o:step()
end, {"optim.SGD: lr must be a number of at least 0, found"}, "a schedule must return a number")

-- ---- parameter groups that are added later ----

for _, Class in ipairs{optim.AdamW, Mine, optim.SGD} do
  local p, q = rille.tensor({1, 2}, {requires_grad = true}), rille.tensor({3, 4}, {requires_grad = true})
  local o = Class({p}, {lr = 0.1})
  local function train()
    (p * p + q * q):sum():backward(); o:step(); p.grad, q.grad = nil, nil
  end
  local step = rille.graph(train)
  step()
  local before = q:totable()
  o:add_param_group{params = {q}, lr = 0.5}
  step()
  local name = tostring(o):match("^[%w.]+")
  tap.ok(before[1] == 3 and math.abs(q:totable()[1] - 3) > 0.4, name .. ": a group that was added is trained, also by a step that was compiled before")
  tap.is({#o.groups, #o.params, o.groups[2].lr}, {2, 2, 0.5}, name .. ": it is listed")
  tap.fails(function() o:add_param_group{params = {q}} end, {"parameter 1 occurs twice"}, name .. ": not twice")
  tap.fails(function() o:add_param_group{q} end, {"group 3 must be {params = list, ...}"}, name .. ": a list is no group")
  q:requires_grad_(false)
  local kept = q:totable()
  step()
  tap.is(q:totable(), kept, name .. ": a frozen parameter stays")
end

-- ---- norms: the values of torch.nn.utils.clip_grad_norm_, max_norm = 1 ----

for _, case in ipairs{{1, 13, 3 / 13}, {2, math.sqrt(51), 3 / math.sqrt(51)}, {3, 217 ^ (1 / 3), 3 / 217 ^ (1 / 3)}, {math.huge, 5, 3 / 5}} do
  for _, P in ipairs{P1, P4} do
    local function gradient(values)
      local p = rille.tensor(values, {placement = P, sbp = "B", requires_grad = true})
      p.grad = rille.tensor(values, {placement = P, sbp = P == P4 and "S(0)" or "B"})
      return p
    end
    local a, b = gradient{3, -4}, gradient{1, -5}
    tap.near(optim.clip_grad_norm({a, b}, 1, case[1]):item(), case[2], ("the norm of type %g"):format(case[1]), 1e-5)
    tap.near(a.grad:totable()[1], case[3], ("gradients clipped by the norm of type %g"):format(case[1]), 1e-4)
  end
end

-- ---- errors for wrong classes ----

local function class(update, more)
  local c = tap.with({name = "Bad", update = update, state = {"m"}}, more)
  return function()
    local p = rille.tensor({1, 2}, {requires_grad = true})
    local o = optim.class(c)({p}, {lr = 0.1})
    p:sum():backward()
    o:step()
  end
end
local function good(o, p, g, state) return p - g * o.lr, {m = state.m} end
for _, m in ipairs{
  {"no update", class(nil), "Bad: update must be a function, found nil"},
  {"no name", function() optim.class{update = good} end, "optim.class: name must be a string, found nil"},
  {"a misspelt option", function() optim.class{name = "Bad", updates = good} end, "unknown option 'updates'"},
  {"options without lr", class(good, {options = {rate = 1}}), "Bad: options.lr must be a number of at least 0, found nil"},
  {"a state name twice", class(good, {state = {"m", "m"}}), "the state name 'm' occurs twice"},
  {"a reserved state name", class(good, {state = {"steps"}}), "the state name 'steps' is taken"},
  {"no new parameter", class(function() end), "Bad: update must return the new parameter as a tensor, found nil"},
  {"no new state", class(function(_, p) return p end), "Bad: update must return the new parameter and a table of the new state {m}, found nil"},
  {"a missing state", class(function(_, p) return p, {} end), "Bad: update must return the new state 'm' as a tensor, found nil"},
  {"another state", class(function(_, p, _, s) return p, {m = s.m, v = p} end), "Bad: update returned unknown state 'v'; expected: m"},
  {"another shape", class(function(_, p, _, s) return p:sum(), s end), "Bad: the new parameter must have the shape of the parameter, {2}, found {}"},
} do tap.fails(m[2], {m[3]}, m[1] .. " is an error") end

local p = rille.tensor({1, 2}, {requires_grad = true})
local o = Mine({p})
tap.fails(function() o.bogus = 1 end, {"Mine: unknown option 'bogus'"}, "options are checked like those of Rille's classes")
tap.fails(function()
  rille.graph(function() p:sum():backward(); o:step(); o:zero_grad() end, {zero = 1})()
end, {"Mine:step: zero = 1 of rille.graph", "set zero in rille.parallel"}, "zero of rille.graph is refused with a remedy")

tap.done()
