-- packed.lua - how tightly the planner packs registers in training steps of language models.
--
--   rille -d cpu:1 bench/packed.lua
--
-- Prints three numbers for the device with the most registers: the bytes of its registers; the peak bytes in use at
-- once in simulations of the plan, which is a lower bound for any packing; and the quotient of the two.

local packed = dofile("t/lib/steps/packed.lua")

print(("%-6s %-22s %6s %10s %10s %7s"):format("model", "layout", "pieces", "arena KiB", "in use", "/in use"))
for _, name in ipairs(packed.models) do
  for _, recipe in ipairs(packed.recipes) do
    local arena, most = packed.of(packed.model(name, recipe))
    print(("%-6s %-22s %6d %10.0f %10.0f %7.3f"):format(name, recipe[1], recipe[4], arena / 1024, most / 1024, arena / most))
  end
end
