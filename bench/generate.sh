#!/bin/bash
# generate.sh - prints the speed of text generation (ids per second) with GPT-2 124M: Rille, llama.cpp, and the limit,
# measured in turns.
#
#   bench/generate.sh [build/release] [threads = 1] [rounds = 3]
#
# Each id requires reading all weights once, so the limit is the speed of memory (bench/memory.c). With one thread,
# time is processor time, to exclude other programs. With more threads, time is wall-clock time, so the machine must
# be quiet.
#
# llama.cpp is built from PyPI (llama-cpp-python, some minutes) into build/llama, unless PYTHON names an interpreter
# with llama_cpp and gguf. Without llama.cpp its rows are omitted.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release} threads=${2:-1} rounds=${3:-3}
peer=${PYTHON:-build/llama/bin/python}
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir -p build
[ -n "${PYTHON:-}" ] || [ -x "$peer" ] || python3 -m venv build/llama
has_peer() { "$peer" -c 'import llama_cpp, gguf' 2>/dev/null; }
if has_peer || { [ -z "${PYTHON:-}" ] && "$peer" -m pip install --quiet llama-cpp-python gguf; }; then
  "$peer" bench/peers/llama.py make "$made"
  peer_runs=1
else
  echo "$peer has no llama.cpp: it is left out" >&2
  peer_runs=
fi
for _ in $(seq "$rounds"); do # the programs run in turns, so that other work on the machine slows all of them
  printf 'memory\t%s\n' "$("$build/bench/memory" "$threads")" >>"$made/lines"
  RILLE_THREADS=$threads "$build/rille" -d cpu:1 bench/generate.lua ${peer_runs:+--files "$made"} $([ "$threads" = 1 ] || echo --wall) >>"$made/lines"
  [ -z "$peer_runs" ] || "$peer" bench/peers/llama.py run "$made" "$threads" >>"$made/lines" 2>/dev/null
done
awk -F '\t' '
  $1 == "memory" { if ($2 > limit) limit = $2; next }
  $1 == "first" { if (!($2 in first) || $3 < first[$2]) first[$2] = $3; if (!($2 in second) || $4 < second[$2]) second[$2] = $4; next }
  { if (!($1 in least)) row[++n] = $1; if (!($1 in least) || $2 < least[$1]) least[$1] = $2; bytes[$1] = $3 }
  END {
    printf "memory: %.1f GB/s\n%-26s %8s %8s %10s %14s %14s\n", limit, "one text, 124M", "ids/s", "GB/s", "of limit", "first id, s", "second text, s"
    for (i = 1; i <= n; i++) {
      r = row[i]; speed = bytes[r] / least[r] / 1e9
      printf "%-26s %8.1f %8.1f %9.0f%% %14s %14s\n", r, 1 / least[r], speed, 100 * speed / limit, (r in first) ? first[r] : "", (r in second) ? second[r] : ""
    }
  }' "$made/lines"
uptime
