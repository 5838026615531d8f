-- sgd.lua - stochastic gradient descent, with momentum as in Sutskever et al. 2013 (PyTorch's form):
--
--   g = g + weight_decay p;  m = momentum m + g;  p = p - lr (nesterov: g + momentum m; else: m)

local rille = require "rille"
local check = require "rille.check"
local optimizer = require "rille.optim.optimizer"

local sgd = {name = "optim.SGD", options = {lr = 1e-3, momentum = 0, weight_decay = 0, nesterov = false}}

function sgd.check(opt)
  check.number(sgd.name, "momentum", opt.momentum, 0)
  check.number(sgd.name, "weight_decay", opt.weight_decay, 0)
  check.that(not opt.nesterov or opt.momentum > 0, "%s: nesterov needs a momentum above 0", sgd.name)
end

function sgd.slots(opt)
  return opt.momentum > 0 and {"m"} or {}
end

function sgd.update(opt, p, g, slot, lr)
  rille._update("sgd", {p, slot.m, g, lr},
    {momentum = opt.momentum, weight_decay = opt.weight_decay, nesterov = opt.nesterov})
end

return optimizer(sgd)
