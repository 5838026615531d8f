-- sequential.lua - applies modules in order. The members are seq[1], seq[2]...; in names they count from 0.

local check = require "rille.base.check"
local Module = require "rille.nn.base.module"
local settings = require "rille.nn.base.settings"

local Sequential = Module:extend("nn.Sequential")

Sequential.__any_input = true -- the first member checks the input instead

function Sequential:init(...)
  local members = {...}
  for i = 1, select("#", ...) do
    local member = members[i]
    check.that(settings.is_module(member), "nn.Sequential: argument %d must be a module, found %s%s", i, check.shown(member),
      type(member) == "table" and (rawget(member, "__name") and "; call the class, as in nn.ReLU()"
        or settings.is_module(member[1]) and "; pass the modules one by one: nn.Sequential(table.unpack(list))") or "")
    self[i] = member
  end
end

function Sequential:forward(x)
  for _, member in ipairs(self) do x = member(x) end
  return x
end

return Sequential
