#!/bin/bash
# latency.sh - prints one table of the times of the smallest operations in Lua, in C and in other libraries (peers).
#
#   bench/latency.sh [build/release]      omits peers unless bench/venv.sh has been run
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release}
python=build/venv/bin/python

table() {
  awk -F '\t' '{ printf "%-48s %10s %10s\n", $1, $2, $3 }'
}

printf '%-48s %10s %10s\n' "microseconds" "least" "median"
{
  "$build/rille" -d cpu:2 bench/latency.lua
  "$build/bench/latency"
  "$build/bench/acts"
  for peer in jax torch; do
    [ -x "$python" ] || continue
    "$python" bench/latency.py "$peer" 2>/dev/null || echo "$peer could not be run" >&2
  done
} | table
uptime
