#!/bin/bash
# llama.sh - prints the times of a small Llama and a small mixture of experts, in f32 and bf16: Rille, PyTorch and the
# limit, measured in turns in one run.
#
#   bench/llama.sh [build/release [rounds = 2]]      omits PyTorch unless bench/venv.sh has been run
#
# Prints milliseconds of processor time of one thread: the least of all rounds, and the least median. The limit
# is the time of the products alone.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release} rounds=${2:-2}
python=${PYTHON:-build/venv/bin/python}
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
for _ in $(seq "$rounds"); do # the programs run in turns, so that other work on the machine slows all of them
  for model in llama moe; do
    for dtype in "" bf16; do
      RILLE_THREADS=1 "$build/rille" -d cpu:1 bench/llama.lua --model "$model" ${dtype:+--$dtype} >>"$lines"
      [ ! -x "$python" ] || "$python" bench/llama.py "$model" $dtype >>"$lines"
    done
  done
done
awk -f bench/processor.awk "$lines"
uptime
