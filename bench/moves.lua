-- moves.lua - time of a move in a compiled step: Rille's part of bench/moves.sh.
--
-- Prints "move, devices, bytes, column, microseconds". Small moves are timed in a chain to the target layout and
-- back, large moves alone. The step returns only a thin slice of the result. So the move writes to the arena, whose
-- memory every run reuses, as within a training step.

local rille = require "rille"

local column = arg[1] or "Rille"
local CHAIN, SMALL = 8, 64 * 1024
local moves = {
  {name = "all-reduce", from = "P", to = "B", thin = {{0, 1}, {0, 1}}},
  {name = "all-gather", from = "S(0)", to = "B", thin = {{0, 1}, {0, 1}}},
  {name = "reduce-scatter", from = "P", to = "S(0)", thin = {{}, {0, 1}}},
  {name = "P -> S(1)", from = "P", to = "S(1)", thin = {{0, 1}, {}}},
  {name = "all-to-all", from = "S(0)", to = "S(1)", thin = {{0, 1}, {}}},
}
local shapes = {{2, 1}, {32, 32}, {256, 256}, {1024, 512}, {2048, 2048}, {4096, 4096}}

-- Returns the least time of many runs of a step.
local function least(step, x, seconds)
  local best, stop, runs = math.huge, rille.clock() + seconds, 0
  repeat
    local begin = rille.clock()
    local y = step(x)
    y = y and rille.clock() - begin
    if runs > 1 and y < best then best = y end
    runs = runs + 1
  until runs > 5 and rille.clock() > stop
  return best
end

-- Returns a step that moves a tensor n times to the target layout and back, and once more to the target.
local function chain_of(m, n)
  return rille.graph(function(x)
    for _ = 1, n do x = x:to_global{sbp = m.to}:to_global{sbp = m.from} end
    x = x:to_global{sbp = m.to}
    return x[m.thin]
  end)
end

for _, n in ipairs{2, 4} do
  local ranks = {}
  for r = 0, n - 1 do ranks[r + 1] = r end
  local P = rille.placement("cpu", ranks)
  for _, m in ipairs(moves) do
    for _, shape in ipairs(shapes) do
      local bytes, time = 4 * shape[1] * shape[2]
      local x = rille.ones(shape, {placement = P, sbp = m.from})
      if bytes <= SMALL then
        time = (least(chain_of(m, CHAIN), x, 0.03) - least(chain_of(m, 0), x, 0.02)) / CHAIN
      else
        time = least(chain_of(m, 0), x, 0.06)
      end
      -- A negative time means that a thread was descheduled; such a row is omitted.
      if time > 0 then print(("%s\t%d\t%d\t%s\t%.2f"):format(m.name, n, bytes, column, 1e6 * time)) end
      x = nil
      collectgarbage()
    end
  end
end
