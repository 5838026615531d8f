-- recomputed.lua - calls a function whose intermediate results are computed again in the backward pass instead of
-- being kept.

local rille = require "rille"

-- Returns the results of fn(...). Backward computes the results of all operators in fn again, from the inputs of fn.
return function(fn, ...)
  local was = rille._recompute(true)
  local undo <close> = setmetatable({}, {__close = function() rille._recompute(was) end})
  local results = table.pack(fn(...))
  return table.unpack(results, 1, results.n)
end
