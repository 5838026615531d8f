-- optim.lua - optimisers, gradient clipping, learning rate schedules.

local check = require "rille.base.check"
local schedule = require "rille.optim.schedule"

return check.names("optim", {
  SGD = require "rille.optim.sgd",
  Adam = require("rille.optim.adam").Adam,
  AdamW = require("rille.optim.adam").AdamW,
  class = require "rille.optim.class",
  clip_grad_norm = require "rille.optim.clip",
  cosine = schedule.cosine,
  linear = schedule.linear,
  constant = schedule.constant,
})
