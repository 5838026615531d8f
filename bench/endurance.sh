#!/bin/bash
# endurance.sh path/to/rille [SECONDS = 60] - trains a small model in a job of three workers for a time, while workers
# are killed, processes pause, connections end, and prompts attach. Then trains in one process without faults and
# compares the weights bit by bit. Also fails if memory, threads, descriptors or mappings of the job grow in
# ten minutes or more.
#
# A forwarder stands between worker 1 and the controller. While the forwarder pauses, both ends believe that the
# connection is up.
rille=$(realpath "$1") seconds=${2:-60}
. t/lib/processes.sh
export RILLE=$rille
port=$(free_port)
perl t/lib/forward.pl "$port" 1000000000000000 >"$dir/via" &
forwarder=$!
await [ -s "$dir/via" ]
joins=("$port" "$(cat "$dir/via")" "$port")

keep_worker() { # keep_worker RANK: starts the worker of a rank again whenever it has ended
  while [ ! -e "$dir/over" ]; do
    "$rille" worker --join "tcp://127.0.0.1:${joins[$1]}" --rank "$1" --host "host$1" -d cpu:1 --link 12 --orphan 20 2>>"$dir/worker$1"
    sleep 1
  done
}
for rank in 0 1 2; do keep_worker $rank & done
"$rille" coordinator --bind "tcp://127.0.0.1:$port" --world 3 --silence 8 --link 12 \
  bench/endurance.lua train "$seconds" "$dir" "$forwarder" 2>"$dir/err"
code=$?
touch "$dir/over"
kill "$forwarder"
wait
[ $code = 0 ] || { tail -n 3 "$dir"/{err,worker*,faults}; exit $code; }
"$rille" -d cpu:3 bench/endurance.lua steps "$(cat "$dir/steps")" "$dir" || exit
cmp "$dir/disturbed.safetensors" "$dir/undisturbed.safetensors" || exit
echo "the weights after $(cat "$dir/steps") steps equal those of an undisturbed run"
