#!/bin/bash
# pipeline.sh - prints one table of times of pipelines whose kernels sleep. Rows are Rille on cpu devices, with one
# thread per device; Rille on async devices, whose streams sleep, with eight, two (async/2) and one thread (async/1);
# and PyTorch's pipeline. Each row of Rille also has the simulated time and the lower bound.
#
#   bench/pipeline.sh [build/release]      omits PyTorch unless bench/venv.sh has been run
#
# Prints milliseconds per step, the least of ROUNDS (default 6). Forward, backward and weight gradients (F, B, W) take
# 10 ms each per stage and micro-batch, also on the first stage.
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
