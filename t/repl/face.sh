#!/bin/bash
# face.sh path/to/rille - tests that every function of rille.h rejects NULL, handles of another session, and calls
# from other threads, without a crash. t/repl/face.pl generates the test program from the header.
build=$(dirname "$(realpath "$1")") root=$PWD
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
flags=
if grep -q 'RILLE_SANITIZE:STRING=.' "$build/CMakeCache.txt"; then
  flags=-fsanitize=$(sed -n 's/^RILLE_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
  # ignores leaks, because the processes of this test end without freeing memory
  export ASAN_OPTIONS=detect_leaks=0:$ASAN_OPTIONS
fi
perl "$root/t/repl/face.pl" "$root/rille.h" >"$dir/face.c" &&
  cc -std=gnu11 -g $flags -I"$root" -o "$dir/face" "$dir/face.c" -L"$build" -lrille -Wl,-rpath,"$build" -pthread || exit 1
cd "$dir" && ./face
