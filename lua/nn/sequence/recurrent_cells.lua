-- recurrent_cells.lua - nn.LSTMCell, nn.GRUCell and nn.RNNCell: one step of a recurrent layer. The cells consist of
-- plain operators, so second derivatives exist. x: (batch, n_in), h, c: (batch, hidden); absent h and c are zeros.

local check = require "rille.base.check"
local layout = require "rille.base.layout"
local Module = require "rille.nn.base.module"
local Recurrent = require "rille.nn.sequence.recurrent"
local biased = require "rille.nn.base.biased"

local Cell = Module:extend("nn.Cell")

local function build(self, gates, n_in, hidden, options)
  check.count(self.__name, "the size of the input", n_in)
  check.count(self.__name, "the size of the hidden state", hidden)
  self.n_in, self.hidden = n_in, hidden
  Recurrent.weights(self, "", n_in, gates, hidden, options.bias)
end

local function check_state(self, name, t)
  check.that(t == nil or layout.is_tensor(t), "%s: %s must be a tensor, found %s", self.__name, name, check.shown(t))
end

-- Returns two terms of the gates: the product of the weights with x, and that with h. If h is absent, the second term
-- is only the bias, or nil.
local function products(self, x, h)
  check_state(self, "h", h)
  local bias = rawget(self, "bias_hh")
  local of_h = h and biased(h:matmul(self.weight_hh:transpose(0, 1)), bias) or bias
  return biased(x:matmul(self.weight_ih:transpose(0, 1)), rawget(self, "bias_ih")), of_h
end

local function sum(a, b) return b and a + b or a end

-- Returns the part for gate i along the last axis; nil if `gates` is nil.
local function part(gates, i, hidden)
  return gates and gates:slice(gates.ndim - 1, i * hidden, (i + 1) * hidden)
end

function Cell:describe() return ("%d, %d"):format(self.n_in, self.hidden) end

local LSTMCell = Cell:extend("nn.LSTMCell")

function LSTMCell:init(n_in, hidden, options)
  build(self, 4, n_in, hidden, check.options("nn.LSTMCell", options, {bias = true}))
end

-- Returns the next h and c.
function LSTMCell:forward(x, h, c)
  check_state(self, "c", c)
  local gates, n = sum(products(self, x, h)), self.hidden
  local i, f = part(gates, 0, n):sigmoid(), part(gates, 1, n):sigmoid()
  local g, o = part(gates, 2, n):tanh(), part(gates, 3, n):sigmoid()
  c = c and f * c + i * g or i * g
  return o * c:tanh(), c
end

local GRUCell = Cell:extend("nn.GRUCell")

function GRUCell:init(n_in, hidden, options)
  build(self, 3, n_in, hidden, check.options("nn.GRUCell", options, {bias = true}))
end

-- Returns the next h.
function GRUCell:forward(x, h)
  local a, b = products(self, x, h)
  local n = self.hidden
  local r, z = sum(part(a, 0, n), part(b, 0, n)):sigmoid(), sum(part(a, 1, n), part(b, 1, n)):sigmoid()
  local of_h = part(b, 2, n)
  local new = sum(part(a, 2, n), of_h and r * of_h):tanh()
  return h and new + z * (h - new) or new - z * new
end

local RNNCell = Cell:extend("nn.RNNCell")

function RNNCell:init(n_in, hidden, options)
  options = check.options("nn.RNNCell", options, {bias = true, nonlinearity = "tanh"})
  local f = options.nonlinearity
  check.that(f == "tanh" or f == "relu", 'nn.RNNCell: nonlinearity must be "tanh" or "relu", found %s', check.shown(f))
  self.nonlinearity = f
  build(self, 1, n_in, hidden, options)
end

-- Returns the next h.
function RNNCell:forward(x, h)
  local a = sum(products(self, x, h))
  if self.nonlinearity == "relu" then return a:relu() end
  return a:tanh()
end

return {LSTMCell = LSTMCell, GRUCell = GRUCell, RNNCell = RNNCell}
