#!/bin/bash
# stats-devices.sh - tests the stats of a step on more than 64 devices: the bubble must count all devices.
set -u
out=$("$1" -d cpu:96 -e '
local ranks = {}
for i = 1, 96 do ranks[i] = i - 1 end
local x = rille.ones({96 * 64, 256}, {placement = rille.placement("cpu", ranks), sbp = "S(0)"})
local step = rille.graph(function(a) return a:relu() * 2 end)
for _ = 1, 3 do step(x) end
local s, busy, idle = step:stats(), 0, 0
for _, d in ipairs(s.devices) do busy = busy + d.busy; if d.busy == 0 then idle = idle + 1 end end
print(#s.devices, idle, math.abs(s.bubble - math.max(0, 1 - s.ideal / s.step_time)) < 1e-6)' 2>&1)
if [ "$out" = "$(printf '96\t0\ttrue')" ]; then echo "ok 1 - all 96 devices are listed, and were busy"; else
  echo "not ok 1 - all 96 devices are listed, and were busy"; sed 's/^/# /' <<<"$out"; fi
echo 1..1
