#!/bin/bash
# Tests jobs under torchrun whose agent has a store. Runs with a stand-in for the store (t/lib/store.pl), and with the
# real torchrun if that is installed.
rille=$(realpath "$1")
store=$PWD/t/lib/store.pl
. t/lib/processes.sh
unset ${!TORCHELASTIC_*}
cd "$dir" || exit 1
tell() { head -5 err* log; }

cat >sum.lua <<'LUA'
local ranks = {}
for r = 1, #rille.workers() do ranks[r] = r - 1 end
local x = rille.ones({#ranks * 2, 8}, {placement = rille.placement("cpu", ranks), sbp = "S(0)"})
if os.getenv "KILL" and os.getenv "TORCHELASTIC_RESTART_COUNT" == "0" then os.execute("kill -9 " .. rille.workers()[2].pid) end
print(#ranks, x:sum():item())
LUA

# opens [KEY VALUE]: starts a store that contains KEY, and sets the environment variables of the store's agent
opens() {
  rm -f log # removes the log of the previous store
  mkfifo stdin
  perl "$store" "$@" <stdin >log 2>err.store & serves=$!
  exec 9>stdin
  rm stdin
  await grep -q . log
  export MASTER_ADDR=127.0.0.1 MASTER_PORT=$(head -1 log) TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RUN_ID=job-7 \
    TORCHELASTIC_RESTART_COUNT=1
}
closes() { exec 9>&-; wait $serves; }
# ranks N ARGUMENTS...: starts N ranks, from the last one to the first; sets $code to all exit codes, by rank
ranks() {
  local size=$1 r pids=()
  shift
  for ((r = size - 1; r >= 0; r--)); do
    RANK=$r WORLD_SIZE=$size timeout -k 5 $hang "$rille" "$@" >out$r 2>err$r </dev/null & pids[r]=$!
  done
  code=
  for ((r = 0; r < size; r++)); do wait ${pids[r]}; code+=$?; done
}

opens
LOCAL_WORLD_SIZE=3 ranks 3 -d cpu:1 sum.lua
is "the ranks of one host form a job" "$code $(cat out0)" "000 3	48.0"
is "they join at a socket in a private folder, whose address rank 0 stores and removes" "$(sed -e 1d -e "s|$dir/run/rille-[^/]*/|DIR/|" log)" \
  "set /rille/job-7/1/3 ipc://DIR/control
delete /rille/job-7/1/3"
"$rille" keys >job.key
LOCAL_WORLD_SIZE=1 ranks 2 --key-file job.key -d cpu:1 sum.lua
is "ranks of several hosts form a job by tcp" "$code $(cat out0) $(grep -c '^set /rille/job-7/1/2 tcp://127.0.0.1:[0-9]*$' log)" "00 2	32.0 1"
LOCAL_WORLD_SIZE=1 ranks 2 -d cpu:1 sum.lua
is "without a key, ranks of several hosts are refused" \
  "$code $(grep -l '^rille: torchrun: processes on several hosts need a key: make one with rille keys > FILE' err0 err1 | wc -l)" "22 2"
LOCAL_WORLD_SIZE=2 ranks 2 -d cpu:1 --doctor
ok "--doctor shows the store" grep -qF "torchrun, rank 0 of 2, store at tcp://127.0.0.1:$MASTER_PORT" out0
closes
one() { LOCAL_WORLD_SIZE=2 RANK=1 WORLD_SIZE=2 go -d cpu:1 sum.lua; }
one
ok "a store that is gone is an error" ends 2 "torchrun: the store of the agent at tcp://127.0.0.1:$MASTER_PORT cannot be reached: "
mkdir -m 755 open
for address in tcp://127.0.0.1:1 "ipc://$dir/open/control" "ipc:///control" "$(printf %300s x)"; do
  opens /rille/job-7/1/2 "$address"
  one
  closes
  ok "rank 1 does not join at ${address:0:30}, which another user can have stored" ends 2 "the store of the agent at" "address of rank 0"
done

# ---- the real torchrun ----

real=$(command -v "${TORCHRUN:-torchrun}")
i=0
while read -r name more; do
  share $((i++)) || continue
  [ -n "$real" ] || { skip "$name" "no torchrun here: pip install torch"; continue; }
  env -u MASTER_ADDR -u MASTER_PORT -u TORCHELASTIC_USE_AGENT_STORE timeout -k 5 $hang env $more "$rille" -d cpu:1 sum.lua >out 2>err </dev/null
  is "$name: two ranks form a job" "$? $(grep -o '2	32.0$' out)" "0 2	32.0"
done <<MODES
restart KILL=1 $real --no-python --nproc-per-node 2 --max-restarts 2
default $real --no-python --nproc-per-node 2
standalone $real --no-python --nproc-per-node 2 --standalone
c10d $real --no-python --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint localhost:$(free_port)
static $real --no-python --nproc-per-node 2 --nnodes 1 --node-rank 0 --master-addr 127.0.0.1 --master-port $(free_port)
MODES

# ---- a killed agent ----

# The first start of the ranks runs until they are killed. On a busy machine, one agent may start alone before the other
# is there; torchrun then starts the ranks again with both.
cat >lasting.lua <<'LUA'
local x = rille.ones({2 * #rille.workers(), 8}, {placement = rille.placement(rille._present()), sbp = "S(0)"})
if #rille.workers() == 2 then io.open("up", "w"):close() end
repeat local sum = x:sum():item() until os.getenv "TORCHELASTIC_RESTART_COUNT" ~= "0"
print(#rille.workers(), x:sum():item())
LUA
# agent NUMBER: starts an agent of a job of one or two hosts; agent 0 has the store of the rendezvous
agent() {
  env -u MASTER_ADDR -u MASTER_PORT -u TORCHELASTIC_USE_AGENT_STORE timeout -k 5 $hang $real --no-python --nnodes 1:2 --nproc-per-node 1 \
    --max-restarts 2 --monitor-interval 0.1 --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:$port \
    --rdzv-conf is_host=$((1 - $1)),last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=2 \
    "$rille" --key-file job.key -d cpu:1 lasting.lua >out$1 2>err$1 </dev/null & agent[$1]=$!
}
name="a killed agent: its host is lost, and the ranks of the other host start again"
if share $((i++)) && [ -n "$real" ]; then
  port=$(free_port)
  agent 0
  agent 1
  await [ -e up ]
  lost=$(pgrep -P ${agent[1]})
  began=$EPOCHREALTIME
  kill -9 $lost $(pgrep -P $lost)
  wait ${agent[0]}
  is "$name" "$? $(cat out0 out1)" "0 1	16.0"
  echo "# seconds from the kill to the end: $(bc <<<"$EPOCHREALTIME - $began")"
elif [ -z "$real" ]; then
  skip "$name" "no torchrun here: pip install torch"
fi
finish
