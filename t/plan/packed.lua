-- packed.lua - tests that the registers of language models' training steps need little more memory than the peak of
-- bytes in use. The recipes are data parallelism, ZeRO 3, and stages with either. Another test is a pipeline of many
-- micro-batches. Devices are meta devices, so nothing is computed.

local tap = dofile("t/lib/tap.lua")
local packed = dofile("t/lib/steps/packed.lua")

for _, name in ipairs(packed.models) do
  tap.group(name, function()
    for _, recipe in ipairs(packed.recipes) do
      if not tap.share() then goto next0 end
      local arena, most = packed.of(packed.model(name, recipe))
      tap.ok(most > 0 and arena <= recipe[5] * most, ("%s, %s, %d micro-batches: registers take %.3f of the bytes in use"):format(name, recipe[1], recipe[4], arena / most))
      ::next0::
    end
  end)
end

tap.group("many micro-batches", function()
  local step = dofile("t/lib/steps/stages.lua")({0, 1, 2, 2, 1, 0}, 512, "v-half", {rows = 1024})
  local arena, most = packed.of(step)
  local berths = math.tointeger(tostring(step:plan{physical = true}):match(" at (%d+) offsets"))
  tap.ok(berths and berths < 512, ("512 micro-batches use %d per-act offsets in turn"):format(berths or 0))
  tap.ok(arena <= 1.2 * most, ("512 micro-batches: registers take %.3f of the bytes in use, with buffers of equal size"):format(arena / most))
end)

tap.done()
