#!/bin/bash
# cluster.sh - prints in one run: the table of bench/cluster, the rows of its peers, and the times of several programs
# over processes and hosts (the digits training step of bench/step.lua, an all-reduce, a cached sum, a start).
#
#   bench/cluster.sh [build/release]
#
# Open MPI and gloo are Debian packages: apt-get install openmpi-bin libopenmpi-dev libgloo-dev. If a peer is not
# installed, its rows are omitted.
set -u
cd "$(dirname "$0")/.."
build=${1:-build/release}
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

uptime
"$build/bench/cluster"
if command -v mpicc.openmpi >/dev/null && mpicc.openmpi -O2 bench/peers/cluster_mpi.c -o "$made/mpi"; then
  for way in "vader:shared memory, Open MPI" "tcp:tcp, Open MPI"; do
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 200 mpirun.openmpi --oversubscribe --mca pml ob1 \
      --mca btl "self,${way%%:*}" --mca btl_tcp_if_include lo --mca mpi_yield_when_idle 0 -np 2 "$made/mpi" "${way#*:}" 2>/dev/null ||
      echo "Open MPI failed" >&2
  done
fi
if [ -f /usr/include/gloo/context.h ] &&
  g++ -std=c++17 -O2 bench/peers/cluster_gloo.cc -o "$made/gloo" -lgloo -lpthread; then
  timeout 200 "$made/gloo" || echo "gloo failed" >&2
fi
echo
printf '%-28s %12s %12s\n' "digits step, least us" dp tp
step() { # step NAME ARGUMENTS...: times the digits training step
  timeout 300 "$build/rille" "${@:2}" bench/step.lua 2 |
    awk -F '\t' -v name="$1" '$1 == "Rille, compiled" { us[$2] = $3 }
      END { printf "%-28s %12s %12s\n", name, us["dp"], us["tp"] }'
}
step "one process, two devices" -d cpu:2
step "two processes" launch -n 2 -d cpu:1
RILLE_HOSTS=2 step "two processes, by tcp" launch -n 2 -d cpu:1
echo
# Writes a cost file by which a byte between hosts costs nothing. With these costs the planner chooses no hierarchical
# reduction; instead, each rank that owns a shard of the sum reads that shard's addends from all ranks.
printf 'wire_ns 1e9\nwire_ns_per_byte 0\n' >"$made/owners"
sums() { # sums HOSTS DEVICES: times an all-reduce; DEVICES: number of devices per host
  for _ in 1 2 3; do
    for way in "handed on" "by owners"; do
      RILLE_COST=$([ "$way" = "handed on" ] || echo "$made/owners") RILLE_HOSTS=$1 \
        timeout 100 "$build/rille" launch -n "$1" -d "cpu:$2" bench/handed.lua $(($1 * $2)) | sed "s/^/$way\t/"
    done
  done | awk -F '\t' -v name="sum over $(($1 * $2)), $1 hosts, us" '
    { key = $1 SUBSEP $2; if (!(key in us) || $3 < us[key]) us[key] = $3; if (!($2 in seen)) { seen[$2] = 1; bytes[++n] = $2 } }
    END {
      printf "%-28s %12s %12s\n", name, "handed on", "by owners"
      for (i = 1; i <= n; i++) printf "%20d bytes  %12s %12s\n", bytes[i], us["handed on", bytes[i]], us["by owners", bytes[i]]
    }'
}
sums 2 4
sums 4 4
echo
printf '%-28s %12s %12s %12s\n' "a cached sum, us" median mean worst
cached() { # cached NAME DEVICES ARGUMENTS...: times a cached sum over all devices
  timeout 100 "$build/rille" "${@:3}" bench/cached.lua "$2" | awk -F '\t' -v name="$1" '{ printf "%-28s %12s %12s %12s\n", name, $1, $2, $3 }'
}
cached "one process, two devices" 2 -d cpu:2
for n in 2 4; do cached "$n workers" $n launch -n $n -d cpu:1; done
RILLE_HOSTS=2 cached "2 workers, 2 hosts" 2 launch -n 2 -d cpu:1
echo
# Prints the time from start to exit of a command that does no work, the least of ten runs.
start() { # start NAME COMMAND...
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    begin=$(date +%s%N)
    timeout 60 "${@:2}" >/dev/null 2>&1 || echo "$1 failed" >&2
    echo $((($(date +%s%N) - begin) / 1000))
  done | sort -n | awk -v name="$1" 'NR == 1 { printf "%-28s %12.1f\n", name, $1 / 1000 }'
}
printf '%-28s %12s\n' "start to end" ms
start "Rille, one process" "$build/rille" -e ''
for n in 2 4 16; do start "Rille, $n workers" "$build/rille" launch -n $n -d cpu:1 -e ''; done
RILLE_HOSTS=2 start "Rille, 4 workers, 2 hosts" "$build/rille" launch -n 4 -d cpu:1 -e ''
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for n in 2 4 16; do
  ! command -v mpirun.openmpi >/dev/null || start "Open MPI, $n of nothing" mpirun.openmpi --oversubscribe -n $n true
done
uptime
