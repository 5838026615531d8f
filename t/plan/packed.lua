-- packed.lua - registers of training steps of language models are packed near the bytes that are in use at the worst
-- moment: data parallel, sharded (zero 3), in stages, and both; a chain of many pieces. Meta devices: nothing is computed.

local tap = dofile("t/lib/tap.lua")
local packed = dofile("t/lib/packed.lua")

for _, name in ipairs(packed.models) do
  tap.group(name, function()
    for _, recipe in ipairs(packed.recipes) do
      local arena, most = packed.of(packed.model(name, recipe))
      tap.ok(most > 0 and arena <= recipe[5] * most, ("%s, %s, %d pieces: %.3f of the bytes in use"):format(name, recipe[1], recipe[4], arena / most))
    end
  end)
end

tap.group("many pieces", function()
  local step = dofile("t/lib/stages.lua")({0, 1, 2, 2, 1, 0}, 512, "v-half", {rows = 1024})
  local arena, most = packed.of(step)
  local berths = math.tointeger(tostring(step:plan{physical = true}):match("in (%d+) berths"))
  tap.ok(berths and berths < 512, ("512 pieces take turns in %d berths"):format(berths or 0))
  tap.ok(arena <= 1.2 * most, ("and in %.3f of the bytes in use, of buffers that all take as much"):format(arena / most))
end)

tap.done()
