#!/bin/bash
# Tests that a C program and an equivalent Lua script compute the same 20 losses on two devices, bit by bit, eagerly and as a
# compiled graph.
rille=$1
embed=$(dirname "$rille")/examples/embed
. t/lib/tap.sh

losses() { # losses NAME COMMAND...: prints the losses
  local name=$1
  shift
  "$@" >"$dir/$name" 2>"$dir/errors" || sed 's/^/# /' "$dir/errors"
}

losses c "$embed"
losses c-plain "$embed" --plain
losses lua "$rille" -d cpu:2 examples/embed.lua
losses lua-plain "$rille" -d cpu:2 examples/embed.lua --plain

[ "$(wc -l <"$dir/c")" = 20 ]
ok "the program trains 20 steps" [ $? = 0 ]
awk 'NR == 1 { first = $1 } END { exit !($1 + 0 == $1 && $1 < 0.4 * first) }' "$dir/c"
ok "the loss falls" [ $? = 0 ]
cmp "$dir/c" "$dir/lua" >&2
ok "compiled, the program's losses equal the script's" [ $? = 0 ]
cmp "$dir/c-plain" "$dir/lua-plain" >&2
ok "eagerly, the program's losses equal the script's" [ $? = 0 ]
paste "$dir/c" "$dir/c-plain" | awk '{ d = ($1 - $2) / $1; if (d * d > 1e-12) bad = 1 } END { exit !(NR == 20 && !bad) }'
ok "compiled and eager losses agree within 1e-6" [ $? = 0 ]
case $embed in /*) ;; *) embed=$PWD/$embed ;; esac
(cd "$dir" && ! "$embed" >out 2>&1 && grep -q 'digits_x.npy' out)
ok "the error for a missing file names the file" [ $? = 0 ]
finish
