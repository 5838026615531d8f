#!/bin/bash
# resnet.sh - a small residual network on images of 32 x 32: Rille, PyTorch and the limit, in turns, in one run.
#
#   bench/resnet.sh [build/release [rounds = 3]]      PyTorch is left out when bench/venv.sh has not been run
#
# Milliseconds of the processor, one thread, the least of all rounds and the least median. The limit is what its convolutions
# and their gradients take alone.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release} rounds=${2:-3}
python=build/venv/bin/python
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
for _ in $(seq "$rounds"); do # in turns: a machine that is busy elsewhere is so for all
  RILLE_THREADS=1 "$build/rille" -d cpu:1 bench/resnet.lua >>"$lines"
  [ ! -x "$python" ] || "$python" bench/resnet.py >>"$lines"
done
awk -F '\t' '
  !($1 in row) { row[$1] = ++n; name[n] = $1 }
  { k = row[$1] SUBSEP $2
    if (!(k in least) || $3 < least[k]) least[k] = $3
    if (!(k in median) || $4 < median[k]) median[k] = $4 }
  END {
    printf "%-24s %18s %18s\n", "ms, least / median", "training step", "inference"
    for (i = 1; i <= n; i++) {
      t = i SUBSEP "training"; f = i SUBSEP "inference"
      printf "%-24s %8.1f / %7.1f %8.1f / %7.1f\n", name[i], least[t], median[t], least[f], median[f]
    }
  }' "$lines"
uptime
