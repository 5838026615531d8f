-- optim-counts.lua - tests that Adam's bias correction counts the updates of each parameter, as PyTorch's state[p].step does.
--
-- Tries eager and compiled steps, every layout, micro-batches, stages and ZeRO, a checkpoint and a loaded state.
local tap = dofile("t/lib/tap.lua")
local optim = rille.optim

local ONE, TWO = rille.placement("cpu", {0}), rille.placement("cpu", {0, 1})
local START, LR <const> = {1, 2, 3, 4}, 0.01

-- Returns the parameters after Adam's updates, computed in f64 by Adam's formula. gradients[i]: gradient at step i;
-- nil: the step has no gradient and updates nothing.
local function expected(gradients, decay)
  local out = {}
  for k, p in ipairs(START) do
    local m, v, t = 0, 0, 0
    for i = 1, gradients.n do
      local g = gradients[i]
      if g then
        t, m, v = t + 1, 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p = p * (1 - LR * decay) - LR * (m / (1 - 0.9 ^ t)) / (math.sqrt(v / (1 - 0.999 ^ t)) + 1e-8)
      end
    end
    out[k] = p
  end
  return out
end

-- Steps at which the second of two parameters has a gradient.
local uses = {
  {"unfrozen after 5 steps", function(i) return i > 5 end},
  {"used every second step", function(i) return i % 2 == 0 end},
  {"frozen after 3 steps", function(i) return i <= 3 end},
  {"a second head, used once in four", function(i) return i % 4 == 1 end},
  {"never used", function() return false end},
}
local STEPS <const> = 12
local function gradient_at(i) return 0.5 + i % 3 end

local methods = {
  {"on one device", ONE, "B"},
  {"replicated", TWO, "B"},
  {"split", TWO, "S(0)"},
  {"compiled", ONE, "B", compiled = {}},
  {"compiled, split", TWO, "S(0)", compiled = {}},
  {"micro-batches", TWO, "B", compiled = {micro_batches = 2}},
  {"ZeRO", TWO, "B", compiled = {zero = 2}},
  {"on two stages", ONE, "B", compiled = {micro_batches = 2}, second = rille.placement("cpu", {1})},
}

-- Makes two parameters and their optimiser. Returns the function step(i, both). both: true: the second parameter has
-- a gradient in step i, too.
local function training(method, kind)
  local function leaf(place) return rille.tensor(START, {placement = place, sbp = method[3]}):detach():requires_grad_() end
  local a, b = leaf(method[2]), leaf(method.second or method[2])
  local opt = optim[kind]({a, b}, {lr = LR, weight_decay = kind == "AdamW" and 0.1 or 0})
  local function with(both)
    local function step(x)
      local y = (a * x):sum(1)
      if both then
        if method.second then y = y:to_global{placement = method.second, sbp = "B"} end
        y = y + (b * x:to_global{placement = method.second or method[2], sbp = "B"}):sum(1)
      end
      y:mean():backward()
      opt:step()
      opt:zero_grad()
    end
    return method.compiled and rille.graph(step, method.compiled) or step
  end
  local one, two = with(false), with(true)
  return {a = a, b = b, opt = opt, step = function(i, both)
    (both and two or one)(rille.full({4, 4}, gradient_at(i), {placement = method[2], dtype = "f32"}))
  end}
end

for _, kind in ipairs{"Adam", "AdamW"} do
  for _, method in ipairs(methods) do
    for _, use in ipairs(uses) do
      local t, all, some = training(method, kind), {n = STEPS}, {n = STEPS}
      for i = 1, STEPS do
        t.step(i, use[2](i))
        all[i], some[i] = gradient_at(i), use[2](i) and gradient_at(i) or nil
      end
      local decay, name = kind == "AdamW" and 0.1 or 0, ("%s, %s, %s"):format(kind, method[1], use[1])
      tap.near({t.a:totable(), t.b:totable()}, {expected(all, decay), expected(some, decay)}, name, 1e-5)
    end
  end
end

tap.group("steps without any gradient", function()
  local c = rille.ones({2}, {requires_grad = true})
  local opt = optim.AdamW({c}, {lr = LR, weight_decay = 0})
  for _ = 1, 100 do opt:step() end
  c:sum():backward()
  opt:step()
  tap.near(c:totable(), {1 - LR, 1 - LR}, "steps without gradients do not count for the bias correction")
  tap.is({opt.steps, opt:state_dict()["0.steps"]:item()}, {101, 1}, "steps without gradients count as calls of step()")
end)

-- Checks a learning rate that changes, and a parameter with a gradient in every second step only. PyTorch 2.15
-- computes 6.97499943.
tap.group("a changing rate, and a gradient in every second step", function()
  local p, q = rille.tensor({7}, {requires_grad = true}), rille.tensor({1}, {requires_grad = true})
  local opt = optim.Adam({p, q}, {lr = 0.01})
  for i = 0, 5 do
    if i == 3 then opt.lr = 0.005 end
    local l = (q * q):sum()
    if i % 2 == 0 then l = l + p:sum() * 0.5 end
    l:backward()
    opt:step()
    opt:zero_grad()
  end
  tap.near(p:item(), 6.97499943, "the value is PyTorch's", 0, 1e-6)
end)

-- ---- saved state ----

local function run(t, from, to) for i = from, to do t.step(i, i % 2 == 0) end end
local function values(t) return {t.a:totable(), t.b:totable()} end

local whole = training(methods[1], "AdamW")
run(whole, 1, 8)

local function copy(to, from)
  rille.no_grad(function()
    to.a:copy_(from.a)
    to.b:copy_(from.b)
  end)
end

tap.group("state_dict", function()
  local a, b = training(methods[1], "AdamW"), training(methods[4], "AdamW")
  run(a, 1, 5)
  copy(b, a)
  b.opt:load_state_dict(a.opt:state_dict())
  run(b, 6, 8)
  tap.near(values(b), values(whole), "a state has the count of each parameter")

  local old = a.opt:state_dict()
  old["0.steps"], old["1.steps"] = nil, nil
  b.opt:load_state_dict(old)
  local state = b.opt:state_dict()
  tap.is({state["0.steps"]:item(), state["1.steps"]:item()}, {5, 5}, "a state of an older Rille has one count for all")
  b.opt.steps = 9
  tap.is(b.opt:state_dict()["1.steps"]:item(), 9, "opt.steps = n sets every count")
  tap.fails(function()
    old["0.steps"] = rille.tensor(-1)
    b.opt:load_state_dict(old)
  end, {"'0.steps'", "-1"}, "a count below 0 is refused")
end)

tap.group("checkpoints", function()
  local dir = tap.folder() .. "/x"
  for _, method in ipairs(methods) do
    local a, b = training(methods[1], "AdamW"), training(method, "AdamW")
    run(a, 1, 5)
    copy(b, a)
    rille.checkpoint.save(dir, {optimizer = a.opt, step = 5}, {keep = 1})
    rille.checkpoint.load(dir, {optimizer = b.opt})
    run(b, 6, 8)
    tap.near(values(b), values(whole), method[1] .. ": the count of each parameter continues", 1e-5)
  end
end)

tap.group("a step that fails", function()
  local t = training(methods[1], "Adam")
  run(t, 1, 3)
  rille.snapshot()
  local before = {t.opt.steps, t.opt:state_dict()["1.steps"]:item()}
  t.opt.lr = function() return "x" end
  tap.fails(function() t.step(4, true) end, {"lr"}, "a step with an invalid rate is refused")
  t.opt.lr = LR
  tap.is({t.opt.steps, t.opt:state_dict()["1.steps"]:item()}, before, "a failed step is not counted")
end)

-- Each kind of optimiser counts steps in its own way: as an operand, as a live number, or as a plain number.
local kinds = {
  SGD = rille.optim.SGD, Adam = rille.optim.Adam,
  live = rille.optim.class{name = "live", update = function(o, p, g) return p - g * o.lr / o.step end},
  plain = rille.optim.class{name = "plain", update = function(o, p, g) return p - g * o.lr * (o.step % 2 == 0 and 2 or 1) end},
}

-- options: those of rille.graph; nil: not compiled. Returns the weights after each of three calls of a function with two
-- updates, opt.steps, and the arguments of the schedule.
local function updated_twice(Kind, options)
  local w, asked = rille.ones({4}, {requires_grad = true}), {}
  local opt = Kind({w}, {lr = function(steps) asked[#asked + 1] = steps; return 0.1 / (steps + 1) end})
  local function train(x)
    for power = 1, 2 do
      (x * w ^ power):sum():backward(); opt:step(); opt:zero_grad()
    end
    return w:detach() * 1
  end
  local step = options and rille.graph(train, options) or train
  return tap.list(3, function() return step(rille.ones{4}):totable() end), opt.steps, asked
end

for name, Kind in tap.sorted(kinds) do
  local want, steps, asked = updated_twice(Kind)
  local got, counted, again = updated_twice(Kind, {})
  tap.near(got, want, name .. ": two updates in a compiled step have their own counts and rates", 1e-6)
  tap.near(updated_twice(Kind, {check = "trace"}), want, name .. ": check = \"trace\" finds the same counts and rates", 1e-6)
  tap.is({counted, steps}, {6, 6}, name .. ": both count")
  tap.is({again[#again], asked[#asked]}, {5, 5}, name .. ": the schedule gets the number of earlier steps")
end

tap.done()
