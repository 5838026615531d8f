-- sgd.lua - stochastic gradient descent, with momentum as in Sutskever et al. 2013 (PyTorch's form):
--
--   g = g + weight_decay p;  m = momentum m + g;  p = p - lr (nesterov: g + momentum m; else: m)

local rille = require "rille"
local check = require "rille.base.check"
local optimizer = require "rille.optim.optimizer"

local sgd = {name = "optim.SGD", every = {"m"}, options = {lr = 1e-3, momentum = 0, weight_decay = 0, nesterov = false}}

function sgd.check(opt)
  check.number(sgd.name, "momentum", opt.momentum, 0)
  check.number(sgd.name, "weight_decay", opt.weight_decay, 0)
  check.flag(sgd.name, "nesterov", opt.nesterov)
  check.that(not opt.nesterov or opt.momentum > 0, "%s: nesterov needs a momentum above 0", sgd.name)
end

function sgd.slots(opt)
  -- a checkpoint may have a momentum that is not a number; the next step reports it
  return math.type(opt.momentum) and opt.momentum > 0 and {"m"} or {}
end

function sgd.update(opt, p, g, slot, lr)
  rille._update("sgd", {p, opt.momentum > 0 and slot.m or nil, g, lr}, -- without momentum, m is unchanged
    {momentum = opt.momentum, weight_decay = opt.weight_decay, nesterov = opt.nesterov})
end

return optimizer(sgd)
