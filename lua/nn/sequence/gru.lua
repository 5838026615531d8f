-- gru.lua - gated recurrent units in several layers. Cho et al. 2014.

local check = require "rille.base.check"
local Recurrent = require "rille.nn.sequence.recurrent"

local GRU = Recurrent:extend("nn.GRU")

function GRU:init(n_in, hidden, options)
  options = check.options("nn.GRU", options, {num_layers = 1, bias = true, dropout = 0, bidirectional = false})
  self:build("gru", 3, n_in, hidden, options)
end

return GRU
