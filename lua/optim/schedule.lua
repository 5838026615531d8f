-- schedule.lua - learning rates as functions of the step, which counts from 0.
--
--   local lr = optim.cosine{lr = 1e-3, min_lr = 1e-4, warmup = 50, steps = 1000}
--   opt.lr = lr            the optimiser calls lr(opt.steps), also in compiled steps and after a checkpoint is loaded
--   opt.lr = lr(step)      or the program sets the rate itself
--
-- For t < warmup the rate is lr (t + 1) / warmup. From then on the rate falls from lr to min_lr, reaches min_lr at
-- step `steps`, and stays there. A constant schedule stays at lr.

local check = require "rille.base.check"

local schedule = {}

-- Creates a schedule: a function of the step that warms up and then returns after(o, t).
local function make(name, known, after)
  return function(given)
    local o = check.options(name, given, known)
    check.number(name, "lr", o.lr, 0)
    check.whole(name, "warmup", o.warmup, 0)
    if known.steps then
      check.number(name, "min_lr", o.min_lr, 0)
      check.count(name, "steps", o.steps)
      check.that(o.steps >= o.warmup, "%s: steps must be at least warmup, %d, found %d", name, o.warmup, o.steps)
    end
    return function(t)
      check.number(name, "the step", t, 0)
      if t < o.warmup then return o.lr * (t + 1) / o.warmup end
      return after(o, t)
    end
  end
end

-- Creates a schedule that falls from lr to min_lr. fall(u): fraction of lr - min_lr that remains at progress u;
-- fall(0) = 1, fall(1) = 0.
local function falling(name, fall)
  return make(name, {lr = check.none, min_lr = 0, warmup = 0, steps = check.none}, function(o, t)
    if t >= o.steps then return o.min_lr end
    return o.min_lr + (o.lr - o.min_lr) * fall((t - o.warmup) / (o.steps - o.warmup))
  end)
end

schedule.cosine = falling("optim.cosine", function(u) return 0.5 * (1 + math.cos(math.pi * u)) end)
schedule.linear = falling("optim.linear", function(u) return 1 - u end)
schedule.constant = make("optim.constant", {lr = check.none, warmup = 0}, function(o) return o.lr end)

return schedule
