-- choice.lua - what the choice of layouts moves in whole training steps, in bytes over all ranks.
--
--   rille -d cpu:8 bench/choice.lua [program]
--
-- A step is forward, backward and AdamW back into the parameters' layouts, so that all that is owed is paid. Three
-- columns: what a choice by moves alone has moved (as measured when the rule was that), what the step moves now, and the
-- least that is known to be possible if no operator does more work on a rank ("<" where it is the best that annealing
-- found, not proven). The first and the last are of steps in which each call is a node of its own, so that a step of
-- today may be below the least.

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
