-- gelu.lua - GELU, x Phi(x): exact, or approximated with {approximate = "tanh"}. Hendrycks & Gimpel 2016.

local check = require "rille.check"
local Module = require "rille.nn.module"

local GELU = Module:extend("nn.GELU")

function GELU:init(options)
  self.how = check.options("nn.GELU", options, {approximate = check.none})
end

function GELU:forward(x) return x:gelu(self.how) end

return GELU
