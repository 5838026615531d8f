#!/bin/bash
# The shell builds with each line editor, and without one: editors.sh path/to/rille. Prints TAP. The program under test has
# one of them; of the others the files that know of editors are compiled.
build=$(dirname "$(realpath "$1")") n=0 failed=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
flags="-std=c11 -D_GNU_SOURCE -I. $(pkg-config --cflags lua5.4) -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror"

editor() { # editor NAME DEFINITION HEADER
  n=$((n + 1))
  if [ -n "$3" ] && ! echo "#include <stdio.h>
#include <$3>" | cc -E - >/dev/null 2>&1; then
    echo "ok $n - with $1 # SKIP there is no $3"; return
  fi
  for file in edit keys doctor; do cc $flags $2 -c -o "$dir/$file.o" "shell/$file.c" || bad=1; done 2>"$dir/log"
  if [ -z "${bad:-}" ]; then echo "ok $n - with $1"; else echo "not ok $n - with $1"; sed 's/^/# /' "$dir/log"; failed=1; fi
  bad=
}
editor readline -DRILLE_READLINE=1 readline/readline.h
editor libedit -DRILLE_EDITLINE=1 editline/readline.h
editor "plain lines" "" ""
n=$((n + 1))
was=$(sed -n 's/^RILLE_READLINE:STRING=//p' "$build/CMakeCache.txt")
declare -A said=([readline]=readline [edit]=libedit [none]=none)
if grep -q "line editor  *${said[$was]}" <("$1" --no-init -i <<<':doctor' 2>/dev/null); then echo "ok $n - :doctor says which"; else echo "not ok $n - :doctor says which"; failed=1; fi
echo "1..$n"
exit $failed
