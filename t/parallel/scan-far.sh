#!/bin/bash
# Tests that rille.scan has the same bits in two processes as in one: the body of a scan is part of the plan.
rille=$1
. t/lib/processes.sh

go -d cpu:4 t/lib/steps/scanned.lua
want=$stdout
ok "the cell is trained" test "$(wc -l <"$dir/out")" = 27
for hosts in 1 2; do
  RILLE_HOSTS=$hosts go launch -n 2 -d cpu:2 t/lib/steps/scanned.lua
  is "two processes on $hosts hosts" "$stdout" "$want"
done
finish
