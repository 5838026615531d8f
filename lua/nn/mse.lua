-- mse.lua - the mean of squared differences. The options are the options of rille.mse_loss.

local check = require "rille.check"
local Module = require "rille.nn.module"

local MSELoss = Module:extend("nn.MSELoss")

function MSELoss:init(options)
  self.how = check.options("nn.MSELoss", options, {reduction = check.none})
end

function MSELoss:forward(x, y) return x:mse_loss(y, self.how) end

return MSELoss
