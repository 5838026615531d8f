#!/bin/bash
# The shell builds with each line editor, and without one: editors.sh path/to/rille. Prints TAP. The program under test has
# one of them; of the others the files that know of editors are compiled.
build=$(dirname "$(realpath "$1")")
. "${0%/*}/tap.sh"
flags="-std=c11 -D_GNU_SOURCE -I. $(pkg-config --cflags lua5.4) -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror"

editor() { # editor NAME DEFINITION HEADER
  if [ -n "$3" ] && ! echo "#include <stdio.h>
#include <$3>" | cc -E - >/dev/null 2>&1; then
    skip "with $1" "there is no $3"; return
  fi
  ok "with $1" compiles $2
}
compiles() { for file in edit keys doctor; do cc $flags "$@" -c -o "$dir/$file.o" "shell/$file.c" || return; done; }
editor readline -DRILLE_READLINE=1 readline/readline.h
editor libedit -DRILLE_EDITLINE=1 editline/readline.h
editor "plain lines" "" ""
was=$(sed -n 's/^RILLE_READLINE:STRING=//p' "$build/CMakeCache.txt")
declare -A said=([readline]=readline [edit]=libedit [none]=none)
ok ":doctor says which" grep -q "line editor  *${said[$was]}" <("$1" --no-init -i <<<':doctor' 2>/dev/null)
finish
