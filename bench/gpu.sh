#!/bin/bash
# gpu.sh - prints one table of times on one GPU: Rille and PyTorch (eager and compiled), on the same card in one run.
#
#   bench/gpu.sh [build/release [rounds [peak]]]      uses PyTorch of bench/venv.sh or of python3, if installed
#
# Prints milliseconds (least / median) and the rate, which is computed from the least time. Prints the name of each
# finished case on stderr. peak: the card's nominal dense bf16 TFLOP/s (A100 312, H100 SXM 989), for the MFU that
# bench/gpu.lua defines.
# Without a GPU the script prints the reason and exits with 0.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release} rounds=${2:-10} peak=${3:-0}
python=build/venv/bin/python
[ -x "$python" ] || python=$(command -v python3 || true)
[ -n "$python" ] && "$python" -c 'import torch' 2>/dev/null || python=
if ! name=$("$build/rille" -d cuda:0 -e 'print(rille.device_info("cuda", 0).name)' 2>&1); then
  echo "bench/gpu: $name"
  exit 0
fi
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
"$build/rille" -d cuda:0 bench/gpu.lua --rounds "$rounds" --peak "$peak" | tee -a "$lines" >&2
for peer in torch compile; do
  [ -n "$python" ] || continue
  "$python" bench/gpu.py "$peer" "$rounds" "$peak" 2>/dev/null | tee -a "$lines" >&2 || echo "$peer could not be run to its end" >&2
done
echo "$name"
awk -F '\t' '
  !($1 in row) { row[$1] = ++n; name[n] = $1; unit[n] = $6 }
  { cell[row[$1], $2] = sprintf("%s / %s  %s", $3, $4, $5) }
  END {
    printf "%-36s %-9s %28s %28s %28s\n", "milliseconds, rate", "", "Rille", "PyTorch", "torch.compile"
    for (i = 1; i <= n; i++)
      printf "%-36s %-9s %28s %28s %28s\n", name[i], unit[i], cell[i, "rille"], cell[i, "torch"], cell[i, "compile"]
  }' "$lines"
