-- relu.lua - max(x, 0).

local Module = require "rille.nn.module"

local ReLU = Module:extend("nn.ReLU")

function ReLU:forward(x) return x:relu() end

return ReLU
