-- dropout.lua - in training mode, sets each value to 0 with probability p and scales the others by 1 / (1 - p).

local check = require "rille.base.check"
local Module = require "rille.nn.base.module"

local Dropout = Module:extend("nn.Dropout")

function Dropout:init(p)
  self.p = check.share("nn.Dropout", "p", p == nil and 0.5 or p)
end

function Dropout:forward(x)
  if not self.training or self.p == 0 then return x end
  return x:dropout(self.p, true)
end

function Dropout:describe() return ("p = %g"):format(self.p) end

return Dropout
