-- recomputed.lua - calls a function whose results the backward pass computes again instead of keeping them.

local rille = require "rille"

-- Returns the results of fn(...). Backward computes the results of all operators in fn again from fn's inputs.
return function(fn, ...)
  local was = rille._recompute(true)
  local undo <close> = setmetatable({}, {__close = function() rille._recompute(was) end})
  local results = table.pack(fn(...))
  return table.unpack(results, 1, results.n)
end
