#!/bin/bash
# gpt2.sh - one table of GPT-2 124M: a training step and writing, Rille, its peers and the limit, in one run.
#
#   bench/gpt2.sh [build/release [steps]]      peers are left out when bench/venv.sh has not been run; 4 GB of memory
#
# Milliseconds, least / median.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release} steps=${2:-8}
python=build/venv/bin/python
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT

"$build/rille" -d cpu:2 bench/gpt2.lua --steps "$steps" >>"$lines"
for peer in torch compile jax; do
  [ -x "$python" ] || continue
  "$python" bench/gpt2.py "$peer" "$steps" >>"$lines" 2>/dev/null || echo "$peer could not be run" >&2
done

awk -F '\t' '
  !($1 in row) { row[$1] = ++n; name[n] = $1 }
  { cell[row[$1], $2] = $3 == $4 ? $3 : $3 " / " $4 }
  END {
    printf "%-32s %18s %18s %18s\n", "milliseconds", "step, 4 x 64", "step, 1 x 1024", "an id written"
    for (i = 1; i <= n; i++) printf "%-32s %18s %18s %18s\n", name[i], cell[i, "4x64"], cell[i, "1x1024"], cell[i, "an id"]
  }' "$lines"
uptime
