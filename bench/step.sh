#!/bin/bash
# step.sh - prints the time of a digits training step in Rille and in other frameworks, and its lower limit, in one
# run.
#
#   bench/step.sh [build/release]      omits peers unless bench/venv.sh has been run
#
# Prints microseconds, least / median. "one" is one device. "dp" splits the batch over four devices; "tp" splits the
# weights over four devices.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release}
python=build/venv/bin/python
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT

"$build/bench/step" >>"$lines"
"$build/rille" -d cpu:4 bench/step.lua >>"$lines"
for peer in jax torch; do
  [ -x "$python" ] || continue
  "$python" bench/step.py "$peer" >>"$lines" 2>/dev/null || echo "$peer could not be run" >&2
done

awk -F '\t' '
  !($1 in row) { row[$1] = ++n; name[n] = $1 }
  { cell[row[$1], $2] = $4 == "" ? $3 : $3 " / " $4 }
  function tell(i) { printf "%-28s %14s %16s %16s\n", name[i], cell[i, "one"], cell[i, "dp"], cell[i, "tp"] }
  END {
    printf "%-28s %14s %16s %16s\n", "microseconds a step", "one", "dp", "tp"
    for (i = 1; i <= n; i++) if (name[i] !~ /^-/) tell(i)
    print "\na compiled step, by what a thread does:"
    for (i = 1; i <= n; i++) if (name[i] ~ /^-/) tell(i)
  }' "$lines"
uptime
