#!/bin/bash
# The README's Lua prints what the README says it prints; that of docs/files.md runs.
rille=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
awk '/^```lua$/ { on = 1; next } /^```$/ { if (on) exit } on' README.md >"$dir/twenty.lua"
awk '/^prints$/ { seen = 1 } seen && /^```$/ { if (on) exit; on = 1; next } on' README.md >"$dir/want"
(cd "$dir" && XDG_CONFIG_HOME=$dir "$rille" -d cpu:4 twenty.lua >got 2>&1)
if [ -s "$dir/want" ] && diff "$dir/want" "$dir/got" >"$dir/diff"; then
  echo "ok 1 - the README prints what it says"
else
  sed 's/^/# /' "$dir/diff"
  echo "not ok 1 - the README prints what it says"
fi
awk '/^```lua$/ { on = 1; next } /^```$/ { on = 0 } on' docs/files.md >"$dir/files.lua"
if [ -s "$dir/files.lua" ] && (cd "$dir" && "$rille" -d cpu:2 files.lua >files.out 2>&1) && head -1 "$dir/files.out" | grep -q "^S(0).B$"; then
  echo "ok 2 - the Lua of docs/files.md runs"
else
  sed 's/^/# /' "$dir/files.out"
  echo "not ok 2 - the Lua of docs/files.md runs"
fi
echo "1..2"
