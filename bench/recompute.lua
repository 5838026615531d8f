-- recompute.lua - memory and time of recomputation in a pipeline: GPT blocks on four devices.
--
--   rille -d cpu:1 bench/recompute.lua
--
-- Nothing is computed: the script plans each step and simulates the plan's tasks. Prints three numbers for each
-- schedule: the registers of the device that has the most (MB), the registers of all devices (MB), and the time of a
-- step (microseconds). Each schedule has three variants: all values are kept, only inputs of stages, or only inputs
-- of blocks.

local rille = require "rille"
local dealt = dofile("t/lib/steps/dealt.lua")
local nn = rille.nn

local BLOCKS <const>, WIDTH <const>, HEADS <const>, LENGTH <const>, ROWS <const>, DEVICES <const>, PIECES <const> = 16, 256, 4, 128, 4, 4, 8

local function compiled(devices, schedule, recompute)
  local net = {}
  for q, d in ipairs(devices) do
    local on = rille.placement("meta", {d})
    for _ = 1, BLOCKS // #devices do
      local block = nn.TransformerBlock(WIDTH, HEADS):to_global{placement = on, sbp = "B"}
      net[#net + 1] = {q, on, recompute == "blocks" and block:recompute() or block}
    end
  end
  local step = rille.graph(function(x)
    for i, b in ipairs(net) do
      if i > 1 and b[1] ~= net[i - 1][1] then x = x:to_global{placement = b[2], sbp = "B"} end
      x = b[3](x)
    end
    x:square():mean():backward()
  end, {micro_batches = PIECES, schedule = schedule, recompute = recompute == true})
  step(rille.empty({ROWS * PIECES, LENGTH, WIDTH}, {placement = net[1][2]}))
  return step
end

local function measured(step)
  local most, all = 0, 0
  for at in tostring(step:plan{physical = true}):gmatch("scratch at (%d+)") do most, all = math.max(most, at / 1e6), all + at / 1e6 end
  return ("%7.1f %7.1f %8.0f"):format(most, all, 1e6 * step:chart().planned.time)
end

print(("%-12s  %-24s  %-24s  %-24s"):format("", "all is kept", "by stages", "by blocks"))
print(("%-12s" .. ("  %7s %7s %8s"):rep(3)):format("schedule", "most MB", "all MB", "us", "most MB", "all MB", "us", "most MB", "all MB", "us"))
for _, s in ipairs{{"gpipe", 1}, {"1f1b", 1}, {"zb-h1", 1}, {"zb-h2", 1}, {"interleaved", 2}, {"zb-v", 2, true}, {"v-half", 2, true}, {"v-min", 2, true}} do
  local row = {}
  for _, recompute in ipairs{"nothing", true, "blocks"} do row[#row + 1] = measured(compiled(dealt(DEVICES, s[2], s[3]), s[1], recompute)) end
  print(("%-12s  %s  %s  %s"):format(s[1], table.unpack(row)))
end
