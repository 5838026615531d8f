-- positions.lua - adds a learned vector for each position; weight: (length, d), x: (batch, n, d), n <= length.

local rille = require "rille"
local check = require "rille.base.check"
local Module = require "rille.nn.base.module"
local start = require "rille.nn.base.start"

local Positions = Module:extend("nn.Positions")

function Positions:init(length, d)
  check.count("nn.Positions", "the length", length)
  check.count("nn.Positions", "d", d)
  self.weight = start.normal({length, d})
end

-- at: the position of each entry of x, i64 (batch, n); nil: 0, 1, 2...
function Positions:forward(x, at)
  local length, d = table.unpack(self.weight.shape)
  local n = x.shape[2]
  check.that(x.ndim == 3 and x.shape[3] == d, "nn.Positions: input must be (batch, length, %d), found {%s}", d, table.concat(x.shape, ", "))
  check.that(n <= length, "nn.Positions: %d positions are more than the %d in the table", n, length)
  if at then return x + rille.embedding(at, self.weight) end
  return x + self.weight:slice(0, 0, n)
end

function Positions:describe() return table.concat(self.weight.shape, ", ") end

return Positions
