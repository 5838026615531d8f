#!/bin/bash
# pipeline.sh - one table of pipelines whose kernels sleep: Rille on cpu devices, a thread for each, and on async ones, whose
# streams sleep, with as many threads, two and one (async/2, async/1); its virtual clock, the bound, PyTorch's pipeline.
#
#   bench/pipeline.sh [build/release]      PyTorch is left out when bench/venv.sh has not been run
#
# Milliseconds a step, the least of ROUNDS (6; from the third on there are rows). F = B = W = 10 ms a stage and piece; the first stage of Rille's has no B.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release}
python=${PYTHON:-build/venv/bin/python}
printf '%-22s %8s %8s %10s %10s %10s %10s\n' schedule devices pieces least clock ideal bound
{
  RILLE_THREADS=8 "$build/rille" -d cpu:8 bench/pipeline.lua
  for threads in 8 2 1; do KIND=async RILLE_THREADS=$threads "$build/rille" -d async:8 bench/pipeline.lua; done
  if [ -x "$python" ]; then "$python" bench/pipeline.py; fi
} | awk -F '\t' '{ printf "%-22s %8d %8d %10s %10s %10s %10s\n", $1, $2, $3, $4, $5, $6, $7 }'
