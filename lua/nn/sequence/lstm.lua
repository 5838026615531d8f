-- lstm.lua - a long short-term memory of several layers. Hochreiter & Schmidhuber 1997.

local check = require "rille.base.check"
local Recurrent = require "rille.nn.sequence.recurrent"

local LSTM = Recurrent:extend("nn.LSTM")

function LSTM:init(n_in, hidden, options)
  options = check.options("nn.LSTM", options, {num_layers = 1, bias = true, dropout = 0, bidirectional = false})
  self:build("lstm", 4, n_in, hidden, options)
end

return LSTM
