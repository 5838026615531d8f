#!/bin/bash
# reconfigure.sh - tests that configuring a build folder again changes no command and rebuilds nothing.
. t/lib/tap.sh
configure() { cmake -S . -B "$dir/build" -G Ninja -DCMAKE_BUILD_TYPE=None -DRILLE_CUDA=OFF; }
if ! command -v cmake >/dev/null || ! command -v ninja >/dev/null; then
  skip "configuring again changes no command" "no cmake or no ninja"
  finish
fi
ok "cmake configures the folder" configure
commands() { ninja -C "$dir/build" -t commands | grep -v CMakeFiles/rules; }
commands >"$dir/first"
find "$dir/build/t" -type f -printf '%p %T@\n' | sort >"$dir/written"
ok "cmake configures the folder again" configure
same_commands() { [ -s "$dir/first" ] && commands | diff - "$dir/first"; }
ok "configuring again changes no command" same_commands
again() { find "$dir/build/t" -type f -printf '%p %T@\n' | sort | diff - "$dir/written"; }
ok "configuring again rewrites no file of tests" again
finish
