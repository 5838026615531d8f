-- sequential.lua - applies modules in order. The members are seq[1], seq[2]...; in names they count from 0.

local check = require "rille.check"
local Module = require "rille.nn.module"

local Sequential = Module:extend("nn.Sequential")

function Sequential:init(...)
  local members = {...}
  for i = 1, select("#", ...) do
    local member = members[i]
    check.that(type(member) == "table" and member.forward, "nn.Sequential: argument %d must be a module, found a %s", i, type(member))
    self[i] = member
  end
end

function Sequential:forward(x)
  for _, member in ipairs(self) do x = member(x) end
  return x
end

return Sequential
