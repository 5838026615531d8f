-- packed.lua - how well registers of language models' training steps are packed: of the fullest device their bytes, the most
-- of them in use at once in plays of the plan, below which no arena is, and one as a multiple of the other.
--
--   rille -d cpu:1 bench/packed.lua

local packed = dofile("t/lib/packed.lua")

print(("%-6s %-22s %6s %10s %10s %7s"):format("model", "layout", "pieces", "arena KiB", "in use", "/in use"))
for _, name in ipairs(packed.models) do
  for _, recipe in ipairs(packed.recipes) do
    local arena, most = packed.of(packed.model(name, recipe))
    print(("%-6s %-22s %6d %10.0f %10.0f %7.3f"):format(name, recipe[1], recipe[4], arena / 1024, most / 1024, arena / most))
  end
end
