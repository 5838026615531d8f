#!/bin/bash
# reconfigure.sh - configuring a build folder again changes no command, so nothing is built anew.
. t/lib/tap.sh
configure() { cmake -S . -B "$dir/build" -G Ninja -DCMAKE_BUILD_TYPE=None -DRILLE_CUDA=OFF; }
if ! command -v cmake >/dev/null || ! command -v ninja >/dev/null; then
  skip "configuring again changes no command" "no cmake or no ninja"
  finish
fi
ok "it configures" configure
commands() { ninja -C "$dir/build" -t commands | grep -v CMakeFiles/rules; }
commands >"$dir/first"
find "$dir/build/t" -type f -printf '%p %T@\n' | sort >"$dir/written"
ok "and again" configure
same_commands() { [ -s "$dir/first" ] && commands | diff - "$dir/first"; }
ok "which changes no command" same_commands
again() { find "$dir/build/t" -type f -printf '%p %T@\n' | sort | diff - "$dir/written"; }
ok "and writes no file of tests again" again
finish
