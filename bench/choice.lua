-- choice.lua - bytes that all ranks move in a training step with the layouts that Rille chooses.
--
--   rille -d cpu:8 bench/choice.lua [program]
--
-- A step is forward, backward and AdamW. The updated parameters have their former layouts, so the bytes of every
-- pending reduction are counted. Columns:
--
--   moves alone   bytes with an earlier method of choice, which counted only moves
--   now           bytes with the present method
--   least known   the least known bytes of layouts in which no operator does more work per rank ("<": found by
--                 annealing, not proven least)
--
-- "moves alone" and "least known" count each call as a separate node, so "now" may be below "least known".

local rille = require "rille"
local programs, make = dofile("bench/programs.lua")

print(("%-42s %12s %12s %14s   now/moves alone"):format("bytes of a step", "moves alone", "now", "least known"))
local logs, n = 0, 0
for _, e in ipairs(programs) do
  local name, before, least, found = e[1], e[5], e[6], e[7]
  if not arg[1] or arg[1] == name then
    local step, x, y = make(e)
    step = rille.graph(step)
    step(x, y)
    local bytes = step:explain().bytes
    print(("%-42s %12d %12d %14s   %.2f"):format(name, before, bytes, (found or "") .. least, bytes / before))
    logs, n = logs + math.log(bytes / before), n + 1
  end
end
if n > 1 then print(("geometric mean of now / moves alone: %.3f"):format(math.exp(logs / n))) end
