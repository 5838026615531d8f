#!/bin/bash
# gpt2.sh - prints one table of times for GPT-2 124M, measured in one run: a training step and text generation by
# Rille and by peers, and the limit.
#
#   bench/gpt2.sh [build/release [steps [layers]]]      needs 6 GB of memory; omits peers unless bench/venv.sh has run
#
# Prints milliseconds (least / median) and gigabytes of peak memory. Each row runs in a separate process, so that its
# peak memory can be measured.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release} steps=${2:-8} layers=${3:-12}
python=build/venv/bin/python
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT

peers() { # peers CASE: selects the peers' lines of this case
  [ -x "$python" ] && [ "$1" != "an id" ] || return 0
  for peer in torch compile jax; do
    "$python" bench/gpt2.py "$peer" "$1" "$steps" "$layers" 2>/dev/null || echo "$peer could not be run: $1" >&2
  done
}

last=
while IFS=$'\t' read -r row case; do
  [ -z "$last" ] || [ "$last" = "$case" ] || peers "$last"
  last=$case
  "$build/rille" -d cpu:2 bench/gpt2.lua --row "$row" --case "$case" --steps "$steps" --layers "$layers" </dev/null
done < <("$build/rille" -d cpu:2 bench/gpt2.lua --list) >>"$lines"

awk -F '\t' '
  function table(title, cell,    i, c, line) {
    printf "%-32s", title
    for (c = 1; c <= ncase; c++) printf " %17s", cases[c]
    print ""
    for (i = 1; i <= n; i++) {
      line = ""
      for (c = 1; c <= ncase; c++) line = line sprintf(" %17s", cell[i, cases[c]])
      if (line ~ /[^ ]/) printf "%-32s%s\n", name[i], line
    }
  }
  !($1 in row) { row[$1] = ++n; name[n] = $1 }
  !($2 in seen) { seen[$2]; cases[++ncase] = $2 }
  { time[row[$1], $2] = $3 == $4 ? $3 : $3 " / " $4; if ($1 !~ /^limit/) peak[row[$1], $2] = $5 }
  END { table("milliseconds", time); print ""; table("peak memory, GB", peak) }' "$lines"
uptime
