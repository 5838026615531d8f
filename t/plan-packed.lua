-- plan-packed.lua - registers of training steps of language models are packed near the bytes that are in use at the worst
-- moment: data parallel, sharded (zero 3), in stages, and both. Meta devices: nothing is computed.

local tap = dofile("t/tap.lua")
local packed = dofile("t/lib/packed.lua")

for _, name in ipairs(packed.models) do
  tap.group(name, function()
    for _, recipe in ipairs(packed.recipes) do
      local arena, most = packed.of(packed.model(name, recipe))
      tap.ok(most > 0 and arena <= recipe[5] * most, ("%s, %s, %d pieces: %.3f of the bytes in use"):format(name, recipe[1], recipe[4], arena / most))
    end
  end)
end

tap.done()
