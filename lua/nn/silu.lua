-- silu.lua - x sigmoid(x).

local Module = require "rille.nn.module"

local SiLU = Module:extend("nn.SiLU")

function SiLU:forward(x) return x:silu() end

return SiLU
