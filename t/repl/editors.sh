#!/bin/bash
# editors.sh path/to/rille - tests that the shell builds and works with each line editor, and without one. Prints TAP.
# The given program has one of the editors. For each other editor, the test recompiles the editor files and links them
# with the program's objects.
build=$(dirname "$(realpath "$1")")
. t/lib/tap.sh
flags="-std=c11 -D_GNU_SOURCE -I. $(pkg-config --cflags lua5.4) -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror"

# with NAME DEFINITION HEADER: compiles the shell's three editor files for one line editor, links them with the
# program's other objects, and runs the checks of repl.sh that this editor supports.
with() {
  local name=$1 definition=$2 header=$3
  if [ -n "$header" ] && ! cc -include stdio.h -include "$header" -x c -E /dev/null >/dev/null 2>&1; then
    skip "the editor files compile with $name" "there is no $header"; return
  fi
  ok "the editor files compile with $name" compiles $definition
  if [ -z "$link" ] || [ "$name" = "${said[$was]}" ]; then return; fi
  ok "the shell links with $name" links "${library[$name]}"
  ok "the shell with $name passes repl.sh" as_a_shell
}
as_a_shell() { bash t/repl/repl.sh "$dir/rille" >"$dir/tap" || { grep -a -A9 '^not ok' "$dir/tap"; false; }; }
compiles() { for file in repl/edit repl/keys launch/doctor; do cc $flags "$@" -c -o "$dir/${file##*/}.o" "shell/$file.c" || return; done; }
links() {
  local command=$link file
  for file in repl/edit repl/keys launch/doctor; do command=${command/"CMakeFiles/rille.dir/shell/$file.c.o"/$dir/${file##*/}.o}; done
  command=${command/ -o rille / -o $dir/rille }
  (cd "$build" && eval "$command $1")
}
was=$(sed -n 's/^RILLE_READLINE:STRING=//p' "$build/CMakeCache.txt")
link=$(ninja -C "$build" -t commands rille 2>/dev/null | tail -1)
declare -A said=([readline]=readline [edit]=libedit [none]=none) library=([readline]=-lreadline [libedit]=-ledit)
with readline -DRILLE_READLINE=1 readline/readline.h
! share 1 || with libedit -DRILLE_EDITLINE=1 editline/readline.h
! share 2 || with none "" ""
ok ":doctor names the line editor" grep -q "line editor  *${said[$was]}" <("$1" --no-init -i <<<':doctor' 2>/dev/null)
finish
