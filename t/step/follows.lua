-- Tests that a compiled step computes the same as the plain function after settings of modules and optimisers change.
-- A change must cause a new trace; nothing else may. Optimisers must count steps as in the plain function.
local tap = dofile("t/lib/tap.lua")
local nn, optim, T = rille.nn, rille.optim, rille.tensor

-- ---- modules ----

local Window = nn.Module:extend("Window")
function Window:init(n) self.n, self.fc = n, nn.Linear(8, 8) end
function Window:forward(x) return self.fc(x) * self.n end
function Window:settings() return {n = self.n, list = self.list} end

-- a module without the method settings(), so a trace has its numbers as constants
local Silent = nn.Module:extend("Silent")
function Silent:init() self.fc, self.list, self.calls = nn.Linear(8, 8), {nn.ReLU()}, 0 end
function Silent:forward(x)
  self.calls = self.calls + 1
  x = self.fc(x)
  for _, layer in ipairs(self.list) do x = layer(x) end
  return x
end

-- A user's module without the method settings(). Its layers and parameters are in fields and tables. Each row of the
-- test changes one field.
local Holder = nn.Module:extend("Holder")
function Holder:init()
  self.named, self.pairs, self.later, self.seen = {left = nn.Linear(8, 8)}, {{nn.Linear(8, 8)}}, {}, {}
  self.w = nn.Parameter(rille.ones{8})
  self.ws = {nn.Parameter(rille.ones{8})}
  self:buffer("shift", rille.ones{8})
end
function Holder:forward(x)
  local y = self.pairs[1][1](self.named.left(x)) * self.w * self.ws[1] + self.shift
  for _, layer in ipairs(self.later) do y = layer(y) end
  if self.more then y = self.more(y) end
  self.seen.y, self.last, self.calls = y, y, (self.calls or 0) + 1
  return y
end
local Mine = nn.Linear:extend("Mine")
function Mine:forward(x) return nn.Linear.forward(self, x):exp() end

local function attention(rotary) return nn.MultiheadAttention(8, 2, {is_causal = true, rotary = rotary}) end
local scaling = {rope_type = "linear", factor = 2}

-- Columns: name, module, change, shape of the input. Every change changes the output.
local rows = {
  {"the base of a rotary", attention(nn.Rotary(16, 4)), function(m) m.rotary.base = 50 end, {1, 5, 8}},
  {"another rotary", attention(nn.Rotary(16, 4)), function(m) m.rotary = nn.Rotary(16, 4, {base = 3}) end, {1, 5, 8}},
  {"a rotary's scaling", attention(nn.Rotary(16, 4)), function(m) m.rotary.scaling = scaling end, {1, 5, 8}},
  {"a field of a rotary's scaling", attention(nn.Rotary(16, 4, {scaling = {rope_type = "linear", factor = 2}})),
    function(m) m.rotary.scaling.factor = 8 end, {1, 5, 8}},
  {"eps", nn.LayerNorm(8), function(m) m.eps = 2 end},
  {"eps among options", nn.RMSNorm(8), function(m) m.how.eps = 2 end},
  {"a table of options", nn.GELU(), function(m) m.how = {approximate = "tanh"} end},
  {"the stride of a convolution", nn.Conv2d(1, 1, 3), function(m) m.how.stride = 2 end, {1, 1, 8, 8}},
  {"a layer in a list", nn.Sequential(nn.ReLU(), nn.SiLU()), function(m) m[2] = nn.GELU() end},
  {"one more layer", nn.Sequential(nn.ReLU()), function(m) m[2] = nn.GELU() end},
  {"a new bias", nn.Linear(8, 8, {bias = false}), function(m) m.bias = nn.Parameter(rille.ones{8}) end},
  {"another weight", nn.Linear(8, 8), function(m) m.weight = nn.Parameter(rille.ones{8, 8}) end},
  {"a setting that a class names", Window(2), function(m) m.n = 3 end},
  {"a setting of a nested layer", nn.Sequential(nn.LayerNorm(8), Window(2)), function(m) m[2].n = 5 end},
  {"a layer of a class without settings", Silent(), function(m) m.fc = nn.Linear(8, 8) end},
  {"an entry of a list of a class without settings", Silent(), function(m) m.list[1] = nn.GELU() end},
  {"fewer experts", nn.MixtureOfExperts(8, 8, 4, {top_k = 4}), function(m) m.top_k = 1 end, {1, 5, 8}},
  {"the number of heads", attention(), function(m) m.heads, m.kv_heads = 4, 4 end, {1, 5, 8}},
  {"the causal mask of attention", attention(), function(m) m.is_causal = false end, {1, 5, 8}},
  {"a layer under a name in a table", Holder(), function(m) m.named.left = nn.Linear(8, 8) end},
  {"a layer in a list in a list", Holder(), function(m) m.pairs[1][1] = nn.Linear(8, 8) end},
  {"a list that grows", Holder(), function(m) m.later[1] = nn.GELU() end},
  {"a new layer", Holder(), function(m) m.more = nn.GELU() end},
  {"a parameter", Holder(), function(m) m.w = nn.Parameter(rille.ones{8} * 3) end},
  {"a parameter in a list", Holder(), function(m) m.ws[1] = nn.Parameter(rille.ones{8} * 3) end},
  {"a buffer", Holder(), function(m) m:buffer("shift", rille.ones{8} * 3) end},
  {"a weight of a class with its own forward", Mine(8, 8), function(m) m.weight = nn.Parameter(rille.ones{8, 8}) end},
  {"a tied weight", Mine(8, 8), function(m) nn.tie(nn.Linear(8, 8), "weight", m, "weight") end},
  {"tables that are swapped", Holder(), function(m) m.named, m.other = {left = m.pairs[1][1]}, m.named end},
  {"a computed buffer", Holder(), function(m) m:buffer("shift", rille.ones{8} * 5 + 1) end},
  {"a forward function of the instance", nn.Linear(8, 8), function(m) function m.forward(_, x) return x * 2 end end},
}

tap.group("modules", function()
  rille.manual_seed(tap.seed(4))
  for _, row in ipairs(rows) do
    local what, m, change, shape = table.unpack(row)
    local x, traced = rille.randn(shape or {3, 8}), 0
    local step = rille.graph(function(t)
      traced = traced + 1
      return m(t)
    end)
    local before = step(x):totable()
    -- the module stores this result in a field of its own, which must cause no new trace
    for _ = 1, 3 do step(x); m(x) end
    tap.is({before, traced}, {m(x):totable(), 1}, what .. ": at first the step is traced once")
    change(m)
    local after = step(x):totable()
    step(x)
    tap.near({after, traced}, {m(x):totable(), 2}, what .. ": the step follows the change with one more trace")
    local same = tostring(T(after).shape) == tostring(T(before).shape) and (T(after) - T(before)):abs():max():item() < 1e-6
    tap.ok(not same, what .. ": the change affects the result")
  end
end)

tap.group("new fields of modules", function()
  local other, n = nn.Linear(8, 8), 0
  local step = rille.graph(function(t) n = n + 1; return other(t) end)
  for i = 1, 3 do
    step(rille.ones{1, 8})
    nn.Linear(8, 8).note, other["seen" .. i] = {}, rille.ones{1}
  end
  tap.is(n, 1, "new fields of this or another module cause no new trace")
end)

-- Tests functions that change settings of their own modules and optimisers, eager and compiled.
tap.group("settings that a step changes itself", function()
  local function both(make)
    local seen, n = {}, {}
    for k, compiled in ipairs{false, true} do
      local w = rille.tensor({1.0}, {requires_grad = true})
      local fn, count = make(w), 0
      local function counted() count = count + 1; return fn() end
      local step = compiled and rille.graph(counted) or counted
      seen[k] = {}
      for i = 1, 5 do
        step()
        seen[k][i] = w:item()
      end
      n[k] = count
    end
    return seen, n[2]
  end
  for what, row in pairs{
    ["changes a decay"] = {2, function(w)
      local o = optim.AdamW({w}, {lr = 0.1, weight_decay = 0})
      return function() (w * w):sum():backward(); o:step(); o:zero_grad(); o.weight_decay = 0.5 end
    end},
    ["puts a decay back"] = {2, function(w)
      local o = optim.AdamW({w}, {lr = 0.1, weight_decay = 0.1})
      return function() (w * w):sum():backward(); o.weight_decay = 0.5; o:step(); o:zero_grad(); o.weight_decay = 0.1 end
    end},
    ["edits betas and puts them back"] = {2, function(w)
      local o = optim.AdamW({w}, {lr = 0.1})
      return function() (w * w):sum():backward(); o.betas[1] = 0.5; o:step(); o:zero_grad(); o.betas[1] = 0.9 end
    end},
    ["switches momentum off and on"] = {3, function(w)
      local o, calls = optim.SGD({w}, {lr = 0.1, momentum = 0.9}), 0
      return function() (w * w):sum():backward(); o:step(); o.momentum = 0; o:step(); o.momentum = 0.9; o:zero_grad() end
    end},
  } do
    local seen, traced = both(row[2])
    tap.near(seen[2], seen[1], "a step that " .. what .. " computes the same as eagerly")
    tap.ok(traced <= row[1], ("a step that " .. what .. " is traced at most %d times"):format(row[1]), traced)
  end
  local norm, x = nn.LayerNorm(8, {eps = 1}), rille.randn{2, 8}
  local doubled = rille.graph(function(t)
    local eps = norm.eps
    norm.eps = eps * 2
    local y = norm(t)
    norm.eps = eps
    return y
  end)
  for _, eps in ipairs{1, 2, 1, 4, 2} do
    norm.eps = eps * 2
    local want = norm(x):totable()
    norm.eps = eps
    tap.near(doubled(x):totable(), want, "a step that derives a setting from its current value is right: eps " .. eps)
  end
  local norms, n = {nn.LayerNorm(8, {eps = 1}), nn.LayerNorm(8, {eps = 2})}, 0
  local turns = rille.graph(function(t)
    n = n + 1
    local here = norms[t.shape[1]]
    local eps = here.eps
    here.eps = eps * 2
    local y = here(t)
    here.eps = eps
    return y
  end)
  for _ = 1, 5 do turns(rille.ones{1, 8}); turns(rille.ones{2, 8}) end
  tap.ok(n <= 4, "two alternating shapes, which change and restore different layers, are traced at most twice each", n)
  local v, again = rille.tensor({1.0}, {requires_grad = true}), 0
  local adam = optim.AdamW({v}, {lr = 0.1})
  local same = rille.graph(function()
    again = again + 1
    v:sum():backward(); adam:step(); adam:zero_grad()
  end)
  for _ = 1, 4 do
    adam.betas = {0.9, 0.999}
    same()
  end
  tap.is(again, 1, "equal numbers in a new list cause no new trace")
  local bare = nn.Linear(8, 8, {bias = false})
  local biased = rille.graph(function(t) return bare(t) end)
  biased(x)
  for _, b in ipairs{1, 3, 2} do
    bare.bias = nn.Parameter(rille.ones{8} * b)
    tap.near(biased(x):totable(), bare(x):totable(), "a bias added later, " .. b)
  end
  local w = rille.tensor({1.0}, {requires_grad = true})
  local o = optim.SGD({w}, {lr = 0.1})
  local step = rille.graph(function() (w * w):sum():backward(); o:step(); o:zero_grad() end)
  local function again() o.momentum = 0.9; step() end
  rille.snapshot{}
  again()
  local moved = {w:item(), o:state_dict()["0.m"]:item()}
  rille.recover()
  again()
  tap.is({w:item(), o:state_dict()["0.m"]:item()}, moved, "after recover() a step updates the optimiser's state")
end)

-- Switches momentum off and on. Steps without momentum must not change the momentum's state.
tap.group("momentum off and on", function()
  local seen = {}
  for k, compiled in ipairs{false, true} do
    local w = rille.tensor({1.0, 2.0}, {requires_grad = true})
    local o = optim.SGD({w}, {lr = 0.1})
    local function train() (w * w):sum():backward(); o:step(); o:zero_grad() end
    local step = compiled and rille.graph(train) or train
    for _, momentum in ipairs{0, 0.9, 0, 0, 0.9, 0.9} do
      o.momentum = momentum
      step()
    end
    seen[k] = w:totable()
  end
  tap.near(seen[2], seen[1], "the compiled step computes the same as eagerly")
end)

tap.group("settings changed back and forth", function()
  local m, traced = Window(2), 0
  local step = rille.graph(function(x)
    traced = traced + 1
    return m(x)
  end)
  local x = rille.ones{1, 8}
  for _, n in ipairs{2, 3, 2, 3, 2} do
    m.n = n
    tap.is(step(x):totable(), m(x):totable(), "n = " .. n)
  end
  tap.is(traced, 2, "a trace is reused when its setting returns")
  m.n = 0 / 0
  step(x); step(x)
  tap.is(traced, 3, "NaN equals NaN, so it is traced once")
  function Window:forward(t) return self.fc(t) - self.n end
  m.n = 2
  tap.is(step(x):totable(), m(x):totable(), "the step follows a redefined method of the class")
  m.settings = 3
  tap.is(pcall(step, x), true, "a field `settings` that is no function is ignored")
  local silent = Silent()
  local counted = rille.graph(function(t) return silent(t) end)
  for _ = 1, 3 do counted(x); silent(x) end
  tap.is(silent.calls, 4, "a class without settings() may count its calls")
end)

tap.group("a step without an optimiser", function()
  local m, x = Window(2), rille.ones{1, 8}
  local step = rille.graph(function(t) return m(t) end)
  step(x)
  m.list = {T{1}}
  tap.ok(pcall(step, x), "does not call settings() of a module")
  tap.fails(function() rille.checkpoint.save(os.tmpname(), {model = m}) end, {"Window:settings: 'list.1' is a tensor"}, "a checkpoint calls settings()")
end)

tap.group("frozen parameters", function()
  local function trained(compiled, frozen_at)
    local fc = nn.Linear(2, 2)
    rille.no_grad(function() fc.weight:fill_(1); fc.bias:fill_(1) end)
    local opt, traced = optim.SGD(fc:parameters(), {lr = 1}), 0
    local function train(x)
      traced = traced + 1
      fc(x):sum():backward()
      opt:step(); opt:zero_grad()
      return x
    end
    local go, x, seen = compiled and rille.graph(train) or train, rille.ones{1, 2}, {}
    for i, frozen in ipairs(frozen_at) do
      fc.bias.requires_grad = not frozen
      go(x)
      seen[i] = {fc.weight:sum():item(), fc.bias:sum():item()}
      local other = rille.ones{1, 2}
      other.requires_grad = i % 2 == 0 -- a tensor that no step uses
    end
    return seen, traced
  end
  tap.is(trained(true, {true, false, true}), trained(false, {true, false, true}), "frozen at first and trained later")
  local turns = {false, true, true, false}
  local seen, traced = trained(true, turns)
  tap.is(seen, trained(false, turns), "keep their values in a compiled step, and are updated after they are unfrozen")
  tap.is(traced, 2, "cause exactly one more trace")
end)

-- ---- changes between train() and eval() ----

tap.group("alternating modes", function()
  local calls = 0
  local function counted(fn)
    calls = 0
    return rille.graph(function(...) calls = calls + 1 return fn(...) end)
  end
  local Scaled = nn.Module:extend("Scaled")
  function Scaled:init() self.fc, self.drop = nn.Linear(8, 8), nn.Dropout(0.5) end
  function Scaled:forward(x) return self.drop(self.fc(x)) * (self.training and 3 or 1) end
  local net, x = Scaled(), rille.randn{4, 8}
  local step = counted(function(v) return net(v) end)
  for _ = 1, 3 do
    net:train()
    tap.ok(step(x):eq(0):any():item(), "dropout is active in training")
    net:eval()
    tap.ok(step(x):eq(net.fc(x)):all():item(), "dropout is inactive in evaluation")
  end
  tap.is(calls, 2, "each mode is traced once")
  net.drop:train()
  tap.ok(step(x):eq(0):any():item() and calls == 3, "the step follows the mode of a single module")
  net:eval()
  local plain = counted(function(v) return net.training and v * 2 or v end)
  tap.is({plain(T{1}):item(), net:train() and plain(T{1}):item(), net:eval() and plain(T{1}):item(), calls}, {1, 2, 1, 2},
    "the step follows the mode of a module that is only read")
  local around = counted(function(v)
    net:eval()
    local y = net(v)
    net:train()
    return y
  end)
  net:train()
  for _ = 1, 3 do tap.ok(around(x):eq(net.fc(x)):all():item() and net.training, "a mode that the function restores is restored") end
  tap.is(calls, 1, "a function that restores the mode is traced once")
  local leaves = counted(function(v) return net:eval()(v) end)
  for _ = 1, 3 do leaves(x) end
  tap.ok(calls == 2 and not net.training, "a function that leaves another mode is traced twice, and its last trace is reused")
  local other = nn.Dropout(0.5)
  local alone = counted(function(v) return net(v) end)
  alone(x)
  for _ = 1, 3 do other:eval() alone(x) other:train() alone(x) end
  tap.ok(calls <= 2, "modes of another model cause at most one more trace", calls)
end)

-- ---- changed settings of optimisers ----

local kinds = {
  SGD = {{"momentum", 0.5}, {"weight_decay", 0.1}, {"lr", 0.3}},
  Adam = {{"betas", {0.5, 0.6}}, {"eps", 0.5}, {"weight_decay", 0.1}, {"lr", 0.3}},
  AdamW = {{"betas", {0.5, 0.6}}, {"eps", 0.5}, {"weight_decay", 0.1}, {"lr", 0.3}},
}

-- Runs five steps with a change after the second step. Returns the parameters and the optimiser's number of steps.
local function trained(kind, compiled, grouped, change)
  local a, b = T({1, -2}, {requires_grad = true}), T({3}, {requires_grad = true})
  local opt = optim[kind](grouped and {{params = {a}}, {params = {b}, weight_decay = 0.25}} or {a, b}, {lr = 0.1})
  local function step(g)
    (a * a * g):sum():backward()
    b.grad = g * 2
    opt:step(); opt:zero_grad()
    return g
  end
  local go = compiled and rille.graph(step) or step
  for i = 1, 5 do
    if i == 3 then change(opt) end
    go(T{i / 4})
  end
  return {a:totable(), b:totable(), opt.steps}
end

tap.group("optimisers", function()
  for _, kind in ipairs{"SGD", "Adam", "AdamW"} do
    for _, grouped in ipairs{false, true} do
      local plain = trained(kind, false, grouped, function() end)
      tap.is(plain[3], 5, kind .. ": five steps are counted as five")
      for _, option in ipairs(kinds[kind]) do
        local name, value = table.unpack(option)
        local changes = {[name .. " set"] = function(o) o[name] = value end}
        if grouped then changes[name .. " of a group set"] = function(o) o.groups[2][name] = value end end
        if type(value) == "table" then
          changes[name .. "[1] edited"] = function(o) o[name][1] = value[1] end
          changes[name .. "[2] of a group edited"] = function(o) o.groups[1][name][2] = value[2] end
        end
        for what, change in pairs(changes) do
          local eager = trained(kind, false, grouped, change)
          local where = ("%s%s, %s: "):format(kind, grouped and " with groups" or "", what)
          tap.near(trained(kind, true, grouped, change), eager, where .. "the compiled step computes the same as eagerly")
          tap.ok(math.abs(eager[1][1] - plain[1][1]) + math.abs(eager[2][1] - plain[2][1]) > 1e-6, where .. "the change affects the result")
        end
      end
    end
  end
end)

tap.group("settings that a step's function changes and restores", function()
  local w, traced = T({0}, {requires_grad = true}), 0
  local opt, window = optim.SGD({w}, {lr = 1, weight_decay = 0}), Window(2)
  local step = rille.graph(function(g)
    traced = traced + 1
    opt.weight_decay, window.n = 1, 4
    local y = window(g)
    w.grad = g:sum():reshape{1}
    opt:step(); opt:zero_grad()
    opt.weight_decay, window.n = 0, 2
    return y
  end)
  local x = rille.ones{1, 8}
  for _ = 1, 3 do step(x) end
  tap.is(traced, 1, "cause no new trace")
  window.n = 4
  local want = window(x):totable()
  tap.near({step(x):totable(), w:totable(), traced}, {want, {-8}, 3}, "follow later changes, with the same result as eagerly")
end)

tap.group("counts of optimiser steps", function()
  for kind, options in pairs{SGD = {lr = 1}, Adam = {lr = 1}, AdamW = {lr = 1}} do
    local w = T({1}, {requires_grad = true})
    local opt, other = optim[kind]({w}, options), optim[kind]({w}, options)
    local twice = rille.graph(function(g)
      opt:step() -- no parameter has a gradient
      w.grad = g
      opt:step(); opt:zero_grad()
      return g
    end)
    twice(T{1}); twice(T{1})
    tap.is({opt.steps, other.steps}, {4, 0}, kind .. ": a compiled step counts each of its optimiser steps, with or without gradients")
    rille._fail_act(1)
    tap.fails(function() twice(T{1}) end, {}, kind .. ": a step that fails")
    rille._fail_act(0)
    tap.is(opt.steps, 4, kind .. ": a failed step is not counted")
    opt.steps = 7.0
    w:fill_(1)
    twice(T{1})
    tap.is({opt.steps, math.type(opt.steps)}, {9, "integer"}, kind .. ": counting continues from an assigned count")
  end
end)

tap.group("counts and lists in checkpoints and snapshots", function()
  local dir = tap.folder() .. "/x"
  local function new()
    local w = T({1}, {requires_grad = true})
    local opt = optim.SGD({w}, {lr = 0.5, momentum = 0.5})
    return w, opt, rille.graph(function(g)
      w.grad = g
      opt:step(); opt:zero_grad()
      return g
    end)
  end
  local w, opt, step = new()
  step(T{1}); step(T{1})
  rille.checkpoint.save(dir, {optimizer = opt, step = 2})
  opt.steps = 0 -- as saved by old versions of Rille, which did not count compiled steps
  rille.checkpoint.save(dir .. "/old", {optimizer = opt, step = 2})
  step(T{1})
  for at, steps in pairs{[dir] = 3, [dir .. "/old"] = 1} do
    local _, other, go = new()
    rille.checkpoint.load(at, {optimizer = other})
    go(T{1})
    tap.is({other.steps, other.slots[1].m:totable()}, {steps, opt.slots[1].m:totable()}, "counting continues from a checkpoint's count, after " .. steps)
  end
  local adam = optim.Adam({w}, {lr = 0.5})
  adam.betas[1] = 0.25
  rille.snapshot()
  adam.betas[1], adam.groups[1].betas = 0.75, {0.1, 0.2}
  for _ = 1, 2 do
    rille.recover()
    tap.is({adam.betas[1], adam.groups[1].betas[1]}, {0.25, 0.25}, "a snapshot restores lists")
    adam.betas[1] = 0.5
  end
  local list = {0.5, 0.5}
  local one, two = optim.Adam({w}, {betas = list}), optim.Adam({{params = {w}, betas = list}})
  two.betas = list
  list[1] = 0.1
  tap.is({one.betas[1], two.betas[1], two.groups[1].betas[1]}, {0.5, 0.5, 0.5}, "an optimiser copies the lists that it is given")
end)

tap.done()
