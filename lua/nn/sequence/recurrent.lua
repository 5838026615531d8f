-- recurrent.lua - the base class of nn.LSTM, nn.GRU and nn.RNN: layers of a recurrent cell, in one or both directions.
--
-- x: (batch, length, n_in); y: (batch, length, hidden), or 2 hidden if bidirectional. Parameters have PyTorch's names and
-- layouts: weight_ih_l0 (gates hidden, n_in), weight_hh_l0 (gates hidden, hidden), bias_ih_l0, bias_hh_l0; the reverse
-- direction's names end in _reverse.
--
-- The inputs of all steps are multiplied by weight_ih in one product. One operator, recurrence, computes all steps,
-- so a plan does not grow with the length.

local rille = require "rille"
local check = require "rille.base.check"
local layout = require "rille.base.layout"
local Module = require "rille.nn.base.module"
local biased = require "rille.nn.base.biased"
local start = require "rille.nn.base.start"

local Recurrent = Module:extend("nn.Recurrent")

Recurrent.parallel = {stream = true}

local function suffix(layer, reverse) return ("_l%d%s"):format(layer, reverse and "_reverse" or "") end

-- Creates the parameters of one direction of a layer. `at` is the suffix of their names.
function Recurrent.weights(self, at, n_in, gates, hidden, bias)
  local bound = 1 / math.sqrt(hidden)
  self["weight_ih" .. at] = start.uniform({gates * hidden, n_in}, bound)
  self["weight_hh" .. at] = start.uniform({gates * hidden, hidden}, bound)
  if not bias then return end
  self["bias_ih" .. at] = start.uniform({gates * hidden}, bound)
  self["bias_hh" .. at] = start.uniform({gates * hidden}, bound)
end

-- Sets the fields and creates the parameters. gates: number of gates of the cell.
function Recurrent:build(cell, gates, n_in, hidden, options)
  local who = self.__name
  check.count(who, "the size of the input", n_in)
  check.count(who, "the size of the hidden state", hidden)
  check.count(who, "num_layers", options.num_layers)
  check.share(who, "dropout", options.dropout)
  self.cell, self.n_in, self.hidden = cell, n_in, hidden
  self.num_layers, self.dropout, self.bidirectional = options.num_layers, options.dropout, options.bidirectional
  for layer = 0, options.num_layers - 1 do
    for way = 1, options.bidirectional and 2 or 1 do
      self.weights(self, suffix(layer, way == 2), layer == 0 and n_in or self:width(), gates, hidden, options.bias)
    end
  end
end

-- Returns the size of the last dimension of the result y.
function Recurrent:width() return self.hidden * (self.bidirectional and 2 or 1) end

-- Checks an initial state; nil: zeros.
local function check_state(self, name, state, batch)
  if state == nil then return end
  local n = self.num_layers * (self.bidirectional and 2 or 1)
  check.that(layout.is_tensor(state), "%s: %s must be a tensor, found %s", self.__name, name, check.shown(state))
  local s = state.shape
  check.that(#s == 3 and s[1] == n and s[2] == batch and s[3] == self.hidden,
    "%s: %s must have shape {%d, %d, %d}, found {%s}", self.__name, name, n, batch, self.hidden, table.concat(s, ", "))
end

-- Returns the option lengths as a tensor; nil: not given.
local function lengths_of(self, lengths, x)
  if lengths == nil then return end
  if not layout.is_tensor(lengths) then
    check.that(type(lengths) == "table", "%s: lengths must be a tensor or a table, found %s", self.__name, check.shown(lengths))
    lengths = rille.tensor(lengths, {dtype = "i64"})
  end
  check.that(lengths.ndim == 1 and lengths.shape[1] == x.shape[1], "%s: lengths must have shape {%d}, found {%s}",
    self.__name, x.shape[1], table.concat(lengths.shape, ", "))
  if lengths.placement ~= x.placement then lengths = lengths:to_global{placement = x.placement} end
  return lengths
end

-- Replicates x over the mesh axes whose entries match one of the patterns. Otherwise the
-- operator, which can split only the batch, would split the batch over tensor axes, too, and the gradient of each weight
-- would be a pending reduction.
local function replicated(x, patterns)
  local sbp = x.sbp:gsub(" order.*", "")
  for _, pattern in ipairs(patterns) do sbp = sbp:gsub(pattern, "B") end
  return sbp == x.sbp and x or x:_pin{placement = x.placement, sbp = sbp}
end

-- Computes one direction of a layer. Returns the hidden states of all steps, and the last h and c.
local function direction(self, x, at, first, reverse, lengths)
  local gates = biased(x:matmul(self["weight_ih" .. at]:transpose(0, 1)), rawget(self, "bias_ih" .. at))
  local hs, cs = rille._recurrence(replicated(gates, {"S%([12]%)", "P%(%a+%)", "P"}), self["weight_hh" .. at], first.h, first.c, rawget(self, "bias_hh" .. at), lengths,
    {cell = self.cell, reverse = reverse})
  local last = reverse and 0 or x.shape[2] - 1
  return hs, hs[{{}, last}], self.cell == "lstm" and cs[{{}, last}] or nil
end

-- Computes a layer; appends its last states to h and c. If weight_ih is sharded, the gradient of x is a pending
-- reduction. The pin reduces this gradient once for both directions.
local function layer_of(self, x, layer, given, lengths, h, c)
  local ways = {}
  x = replicated(x, {"S%(1%)"})
  if self["weight_ih" .. suffix(layer)].sbp:find("S") then x = x:_pin(layout.of(x)) end
  for way = 1, self.bidirectional and 2 or 1 do
    local first, at = {h = given.h0 and given.h0[#h], c = given.c0 and given.c0[#h]}, suffix(layer, way == 2)
    ways[way], h[#h + 1], c[#c + 1] = direction(self, x, at, first, way == 2, lengths)
  end
  return ways[2] and rille.concat(ways, 2) or ways[1]
end

local function masked(y, lengths)
  if not lengths then return y end
  local steps = rille.arange(y.shape[2], {placement = y.placement})
  return rille.where(steps:lt(lengths:unsqueeze(1)):unsqueeze(2), y, 0)
end

-- Computes all layers. options: h0, c0 (layers, batch, hidden), in the order layer 0, layer 0 reverse, layer 1, ...; lengths:
-- number of steps of each row. Returns y, the last h, and the last c (LSTM). Results beyond a row's length are 0.
function Recurrent:forward(x, options)
  local who, lstm = self.__name, self.cell == "lstm"
  check.that(layout.is_tensor(x) and x.ndim == 3 and x.shape[3] == self.n_in,
    "%s: input must be a tensor (batch, length, %d), found %s", who, self.n_in, layout.is_tensor(x) and "{" .. table.concat(x.shape, ", ") .. "}"
      or check.shown(x))
  check.that(x.shape[2] > 0, "%s: input must have at least one step, found {%s}", who, table.concat(x.shape, ", "))
  check.that(not layout.is_tensor(options) and not (type(options) == "table" and layout.is_tensor(options[1])),
    "%s: the second argument must be a table of options, found %s; pass states by name, as in {h0 = h%s}", who,
    layout.is_tensor(options) and "a tensor" or "a list of tensors", lstm and ", c0 = c" or "")
  local given = check.options(who, options, {h0 = check.none, c0 = lstm and check.none or nil, lengths = check.none})
  check_state(self, "h0", given.h0, x.shape[1])
  check_state(self, "c0", given.c0, x.shape[1])
  local lengths, h, c = lengths_of(self, given.lengths, x), {}, {}
  for layer = 0, self.num_layers - 1 do
    if layer > 0 and self.dropout > 0 and self.training then x = x:dropout(self.dropout, true) end
    x = masked(layer_of(self, x, layer, given, lengths, h, c), lengths)
  end
  return x, rille.stack(h, 0), lstm and rille.stack(c, 0) or nil
end

function Recurrent:describe()
  local text = ("%d, %d"):format(self.n_in, self.hidden)
  if self.num_layers > 1 then text = ("%s, num_layers = %d"):format(text, self.num_layers) end
  return self.bidirectional and text .. ", bidirectional" or text
end

return Recurrent
