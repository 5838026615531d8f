#!/bin/bash
# Tests that the digits example has the same losses in every layout, eager and compiled: 30 steps, relative difference 1e-4.
rille=$1
. t/lib/tap.sh

losses() { # losses NAME ARGUMENTS...: runs the example and prints its losses
  local name=$1
  shift
  "$rille" -d cpu:4 examples/digits.lua --steps 30 --log "$dir/$name" "$@" >"$dir/$name.out" 2>&1
}

losses single --layout single
[ "$(wc -l <"$dir/single")" = 30 ]
ok "one device trains 30 steps" [ $? = 0 ]
awk 'NR == 1 { first = $1 } END { exit !($1 < 0.8 * first) }' "$dir/single"
ok "the loss falls" [ $? = 0 ]

# agrees LOG: compares the log with the log of one device.
agrees() {
  paste "$dir/single" "$dir/$1" | awk '
    { d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > worst || d != d) worst = d }
    END { printf "# largest relative difference %.2g\n", worst; exit !(NR == 30 && worst <= 1e-4) }'
}

for layout in dp tp dp-tp pp pp-tp; do
  losses "$layout" --layout "$layout" || sed 's/^/# /' "$dir/$layout.out"
  agrees "$layout"
  ok "$layout has the losses of one device" [ $? = 0 ]
done
for layout in single dp-tp pp-tp; do
  losses "$layout-plain" --layout "$layout" --plain || sed 's/^/# /' "$dir/$layout-plain.out"
  agrees "$layout-plain"
  ok "$layout has the losses of one device without a compiled step, too" [ $? = 0 ]
done
finish
