#!/bin/bash
# moves.sh - prints one table of times of moves between layouts, by Rille and peers, and of the limit.
#
#   bench/moves.sh [build/release]      omits JAX unless bench/venv.sh has been run
#
# Open MPI and gloo are Debian packages: apt-get install openmpi-bin libopenmpi-dev libgloo-dev. If a peer is not
# installed, its rows are omitted. Prints microseconds, the least of many rounds. Sizes are bytes of the global
# tensor.
set -u
cd "$(dirname "$0")/.."
build=${1:-build/release}
python=build/venv/bin/python
lines=$(mktemp)
made=$(mktemp -d)
trap 'rm -rf "$lines" "$made"' EXIT

# Runs each program ten times, because each process may get other cores for its threads. The least time counts,
# because other work only adds time.
for _ in 1 2 3 4 5 6 7 8 9 10; do RILLE_THREADS=2 "$build/rille" -d cpu:4 bench/moves.lua >>"$lines"; done
for _ in 1 2 3; do "$build/bench/moves" >>"$lines"; done
for n in 2 4; do
  [ ! -x "$python" ] || "$python" bench/peers/moves_jax.py $n >>"$lines" 2>/dev/null || echo "JAX could not be run" >&2
done
if command -v mpicc >/dev/null && mpicc -O2 bench/peers/moves_mpi.c -o "$made/mpi"; then
  for n in 2 4; do
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 200 \
      mpirun --oversubscribe --mca btl self,vader -np $n "$made/mpi" >>"$lines" 2>/dev/null || echo "MPI failed" >&2
  done
fi
if [ -f /usr/include/gloo/allreduce.h ] &&
  g++ -std=c++17 -O2 bench/peers/moves_gloo.cc -o "$made/gloo" -lgloo -lpthread; then
  for n in 2 4; do timeout 200 "$made/gloo" $n >>"$lines" || echo "gloo failed" >&2; done
fi

awk -F '\t' '
  { key = $1 "\t" $2 "\t" $3 }
  $4 == "limit" && !(key in seen) { seen[key] = row[++n] = key }
  !((key, $4) in cell) || $5 + 0 < cell[key, $4] + 0 { cell[key, $4] = $5 }
  END {
    printf "%-16s %3s %10s %10s %10s %10s %10s %10s %8s\n", "microseconds", "on", "bytes", "Rille", "JAX",
           "Open MPI", "gloo", "limit", "GB/s"
    for (i = 1; i <= n; i++) {
      split(row[i], part, "\t")
      us = cell[row[i], "Rille"]
      printf "%-16s %3d %10d %10s %10s %10s %10s %10s %8.2f\n", part[1], part[2], part[3], us, cell[row[i], "JAX"],
             cell[row[i], "Open MPI"], cell[row[i], "gloo"], cell[row[i], "limit"], us ? part[3] / us / 1000 : 0
    }
  }' "$lines"
uptime
