-- rnn.lua - a plain recurrent network of several layers: h = f(w_ih x + b_ih + w_hh h + b_hh), f = tanh or relu.

local check = require "rille.base.check"
local Recurrent = require "rille.nn.sequence.recurrent"

local RNN = Recurrent:extend("nn.RNN")

function RNN:init(n_in, hidden, options)
  options = check.options("nn.RNN", options,
    {num_layers = 1, bias = true, dropout = 0, bidirectional = false, nonlinearity = "tanh"})
  local f = options.nonlinearity
  check.that(f == "tanh" or f == "relu", 'nn.RNN: nonlinearity must be "tanh" or "relu", found %s', check.shown(f))
  self:build(f, 1, n_in, hidden, options)
end

return RNN
