#!/bin/bash
# Every function of rille.h, found in the header itself, refuses NULL, another session's handles and other threads, and
# never crashes. face.sh path/to/rille; t/shell/face.pl writes the program.
build=$(dirname "$(realpath "$1")") root=$PWD
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
flags=
if grep -q 'RILLE_SANITIZE:STRING=.' "$build/CMakeCache.txt"; then
  flags=-fsanitize=$(sed -n 's/^RILLE_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
  export ASAN_OPTIONS=detect_leaks=0:$ASAN_OPTIONS # a process ends where it is
fi
perl "$root/t/shell/face.pl" "$root/rille.h" >"$dir/face.c" &&
  cc -std=gnu11 -g $flags -I"$root" -o "$dir/face" "$dir/face.c" -L"$build" -lrille -Wl,-rpath,"$build" -pthread || exit 1
cd "$dir" && ./face
