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
# checks that the header is plain C99 and C++11, and that the library defines each declared function
echo '#include "rille.h"
int main(void) { struct rille_options o = {0}; o.size = sizeof o; return rille_version_number() == RILLE_VERSION_NUMBER ? (int)(o.size == 0) : 1; }' >"$dir/header.c"
cp "$dir/header.c" "$dir/header.cpp" && sed -i 's/{0}/{}/' "$dir/header.cpp"
library=$(dirname "$(realpath "$rille")")
for compiler in "gcc -std=c99" "gcc -std=c11" "g++ -std=c++11" "g++ -std=c++20" "clang -std=c99" "clang++ -std=c++11"; do
  source=header.c
  case $compiler in *c++*) source=header.cpp ;; esac
  if ! command -v ${compiler%% *} >/dev/null; then
    skip "rille.h compiles with $compiler" "there is no ${compiler%% *}"
    continue
  fi
  ok "rille.h compiles without a warning with $compiler -pedantic" \
    $compiler -Wall -Wextra -pedantic -pedantic-errors -Werror -I. -c -o "$dir/header.o" "$dir/$source"
done
if [ -e "$library/librille.so" ] && ! grep -q 'RILLE_SANITIZE:STRING=.' "$library/CMakeCache.txt"; then
  gcc -std=c99 -I. -o "$dir/header" "$dir/header.c" -L"$library" -lrille -Wl,-rpath,"$library" && "$dir/header"
  ok "the library has the header's version" [ $? = 0 ]
fi
finish
