-- schedule.lua - the learning rate as a function of the step, counted from 0.
--
--   local lr = optim.cosine{lr = 1e-3, min_lr = 1e-4, warmup = 50, steps = 1000}
--   opt.lr = lr(step)
--
-- While t < warmup it is lr (t + 1) / warmup; then it falls from lr to min_lr,
-- which it is from `steps` on. A constant one stays at lr.

local check = require "rille.check"

local schedule = {}

-- fall(u): how much of lr - min_lr is left at the share u of the way, 1 at u = 0, 0 at u = 1.
local function make(name, fall)
  return function(given)
    local o = check.options(name, given, {lr = check.none, min_lr = 0, warmup = 0, steps = check.none})
    check.number(name, "lr", o.lr, 0)
    check.number(name, "min_lr", o.min_lr, 0)
    check.number(name, "warmup", o.warmup, 0)
    check.number(name, "steps", o.steps, o.warmup)
    return function(t)
      if t < o.warmup then return o.lr * (t + 1) / o.warmup end
      if t >= o.steps then return o.min_lr end
      return o.min_lr + (o.lr - o.min_lr) * fall((t - o.warmup) / (o.steps - o.warmup))
    end
  end
end

schedule.cosine = make("optim.cosine", function(u) return 0.5 * (1 + math.cos(math.pi * u)) end)
schedule.linear = make("optim.linear", function(u) return 1 - u end)

function schedule.constant(given)
  local o = check.options("optim.constant", given, {lr = check.none, warmup = 0})
  check.number("optim.constant", "lr", o.lr, 0)
  check.number("optim.constant", "warmup", o.warmup, 0)
  return function(t) return t < o.warmup and o.lr * (t + 1) / o.warmup or o.lr end
end

return schedule
