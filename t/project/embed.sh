#!/bin/bash
# A program in C and a script in Lua that say the same thing compute the same thing: 20 losses on two devices, to the
# last bit, plain and as a compiled graph.
rille=$1
embed=$(dirname "$rille")/examples/embed
. t/lib/tap.sh

losses() { # name command...
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
ok "and the loss falls" [ $? = 0 ]
cmp "$dir/c" "$dir/lua" >&2
ok "compiled, its losses are the script's" [ $? = 0 ]
cmp "$dir/c-plain" "$dir/lua-plain" >&2
ok "operator by operator, too" [ $? = 0 ]
paste "$dir/c" "$dir/c-plain" | awk '{ d = ($1 - $2) / $1; if (d * d > 1e-12) bad = 1 } END { exit !(NR == 20 && !bad) }'
ok "both ways agree within 1e-6" [ $? = 0 ]
case $embed in /*) ;; *) embed=$PWD/$embed ;; esac
(cd "$dir" && ! "$embed" >out 2>&1 && grep -q 'digits_x.npy' out)
ok "a file that is not there is named" [ $? = 0 ]
finish
