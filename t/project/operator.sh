#!/bin/bash
# operator.sh - tests that adding an operator recompiles fewer than ten files.
#
# A new operator is a new file and a line in ops.def. The test counts the objects that depend on ops.def, from ninja's
# records of the build, and the compile commands added or changed by a new file.
. t/lib/tap.sh
built=$(dirname "$1")
if ! command -v cmake >/dev/null || ! command -v ninja >/dev/null || [ ! -f "$built/.ninja_deps" ]; then
  skip "a new operator recompiles fewer than ten files" "no cmake, or not built by ninja"
  finish
fi

# dependants FILE: prints the objects whose recorded dependencies contain a file of this name.
dependants() { ninja -C "$built" -t deps | awk -v file="/$1$" '/^[^ ]/ { object = $1 } $1 ~ file { print object }' | sort -u; }
dependants kernels/op/base/ops.def | grep 'rille.*\.o:$' >"$dir/list"
tell() { cat "$dir/list"; }
some_few() { [ "$(wc -l <"$dir/list")" -ge 1 ] && [ "$(wc -l <"$dir/list")" -lt 9 ]; }
ok "a line in ops.def recompiles at least one file and at most eight" some_few

dependants kernels/op/base/build.h >"$dir/builders"
many() { [ "$(wc -l <"$dir/builders")" -gt 100 ]; }
ok "the count would detect a list included by the builders' header" many

cp -as "$PWD" "$dir/tree" 2>/dev/null
rm -rf "$dir/tree/build" "$dir/tree/.git"
commands() {
  cmake -S "$dir/tree" -B "$dir/build" -G Ninja -DCMAKE_BUILD_TYPE=None -DRILLE_CUDA=OFF >/dev/null &&
    ninja -C "$dir/build" -t commands | grep -- ' -c ' | sort >"$dir/$1"
}
ok "the tree is configured" commands before
cp kernels/op/abs.c "$dir/tree/kernels/op/softsign.c"
ok "the tree is configured again with one more file" commands after
changed() { [ "$(comm -13 "$dir/before" "$dir/after" | grep -vc 'kernels/op/softsign\.c')" = 0 ]; }
tell() { comm -13 "$dir/before" "$dir/after"; }
ok "the new file changes no other compile command" changed
added() { comm -13 "$dir/before" "$dir/after" | grep -q 'kernels/op/softsign\.c'; }
ok "the new file has a compile command" added
finish
