#!/bin/bash
# resnet.sh - prints one table of times of a small residual network on images of 32 x 32: Rille, PyTorch and the
# limit, measured in turns.
#
#   bench/resnet.sh [build/release [rounds = 3]]      omits PyTorch unless bench/venv.sh has been run
#
# Prints milliseconds of processor time of one thread: the least of all rounds, and the least median. The limit
# is the time of the convolutions and their gradients alone.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release} rounds=${2:-3}
python=build/venv/bin/python
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
for _ in $(seq "$rounds"); do # the programs run in turns, so that other work on the machine slows all of them
  RILLE_THREADS=1 "$build/rille" -d cpu:1 bench/resnet.lua >>"$lines"
  [ ! -x "$python" ] || "$python" bench/resnet.py >>"$lines"
done
awk -f bench/processor.awk "$lines"
uptime
