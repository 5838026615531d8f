-- trace.lua - small questions about compiled steps that are being traced.

local rille = require "rille"

local trace = {}

-- What fn gives, called as outside a trace: what it makes is there before the compiled step runs.
function trace.outside(fn, ...)
  local before = rille._trace_pause(true)
  local results = table.pack(pcall(fn, ...))
  rille._trace_pause(before)
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

return trace
