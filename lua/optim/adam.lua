-- adam.lua - Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019):
--
--   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
--   p = p - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
--
-- Weight decay: Adam adds weight_decay * p to g; AdamW subtracts lr * weight_decay * p from p separately. p:
-- parameter; g: gradient; m, v: moments; t: number of the update, from 1.

local rille = require "rille"
local check = require "rille.base.check"
local optimizer = require "rille.optim.optimizer"

local function check_options(opt)
  local name, betas = opt.kind.name, opt.betas
  check.that(type(betas) == "table" and #betas == 2, "%s: betas must be a list of two numbers, found %s", name,
    type(betas) == "table" and check.listed(betas) or check.shown(betas))
  for i = 1, 2 do
    check.number(name, ("betas[%d]"):format(i), betas[i], 0)
    check.that(betas[i] < 1, "%s: betas[%d] must be below 1, found %g", name, i, betas[i])
  end
  check.number(name, "eps", opt.eps, 0)
  check.number(name, "weight_decay", opt.weight_decay, 0)
end

local function slots() return {"m", "v"} end

-- Creates an optimiser class of this name. decoupled: weight decay as in AdamW.
local function kind(name, weight_decay, decoupled)
  local function update(opt, p, g, slot, lr, step)
    rille._update("adamw", {p, slot.m, slot.v, g, lr, step}, {beta1 = opt.betas[1], beta2 = opt.betas[2], eps = opt.eps,
      weight_decay = opt.weight_decay, decoupled = decoupled})
  end
  return optimizer{name = name, check = check_options, every = slots(), slots = slots, update = update,
    options = {lr = 1e-3, betas = {0.9, 0.999}, eps = 1e-8, weight_decay = weight_decay}}
end

return {Adam = kind("optim.Adam", 0, false), AdamW = kind("optim.AdamW", 0.01, true)}
