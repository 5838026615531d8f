#!/bin/bash
# stop.sh path/to/rille - tests Ctrl-C during a planner's search. The search must end, whatever its time limit, and
# the session must continue.
. t/lib/tap.sh
rille=$(realpath "$1")
cd "$dir" || exit 1

# The program has so many blocks that the search for layouts takes long, with and without a memory limit.
cat >plan.lua <<'LUA'
local rille = require "rille"
local P = rille.placement("cpu", {{0, 1, 2, 3}, {4, 5, 6, 7}})
local blocks = {}
for i = 1, 24 do blocks[i] = rille.nn.TransformerBlock(64, 8, {is_causal = true}) end
local net = rille.nn.Sequential(table.unpack(blocks))
net:to_global{placement = P, sbp = "auto"}
local opt = rille.optim.AdamW(net:parameters(), {lr = 1e-3})
local x = rille.rand({16, 32, 64}, {placement = P, sbp = {"S(0)", "B"}})
local step = rille.graph(function()
  if not begun then begun = os.execute("touch begun") end
  local loss = net(x):square():mean()
  loss:backward(); opt:step(); opt:zero_grad()
  return loss
end, {auto_parallel = true, time_limit = 1e6, memory_limit = tonumber(os.getenv("LIMIT"))})
local ok, why = pcall(step)
print(not ok and tostring(why):match("interrupted"), net[1] and rille.ones(4):sum():item())
LUA

for limit in none 5e6; do
  rm -f begun
  LIMIT=$limit timeout -s KILL $hang bash -c 'trap "" INT; set -m; "$0" -d cpu:8 plan.lua >out 2>err & p=$!
    until [ -e begun ]; do sleep 0.1; done
    sleep 1.5; kill -INT $p; wait $p' "$rille" 2>/dev/null
  is "a search of a million seconds, limit $limit, ends at Ctrl-C, and the session continues" "$(cat out err)" \
    "$(printf 'interrupted\t4.0')"
done
finish
