#!/bin/bash
# Tests connections that end while a job runs, and are then replaced (numbered packets, actors/cluster/wire/window.h
# and transport/traffic.c). No worker may be lost, and the results must have the same bits. links.sh path/to/rille;
# SEED= repeats the moments. TAP.
rille=$(realpath "$1")
. t/lib/processes.sh
cp t/lib/cut.pl t/lib/forward.pl "$dir"
cd "$dir" || exit 2

# A job of three hosts, whose workers send small and large shards to each other, and values to the controller.
cat >job.lua <<'LUA'
rille.manual_seed(7)
local P = rille.placement("cpu", {0, 1, 2})
local small, large = {30, 8}, {300, 512}
local value = {}
for k, shape in ipairs{small, large} do
  local w = rille.rand(shape, {placement = P, sbp = "S(0)"})
  for i = 1, tonumber(arg[1]) do
    w:copy_((w * 1.01):to_global{placement = P, sbp = "B"}:to_global{placement = P, sbp = "S(0)"} * 0.99)
    if i % 16 == 0 then value[k] = w:sum():item() end
  end
  value[k] = ("%.17g"):format(w:sum():item())
  rille.snapshot{k}
end
print(table.concat(value, " "), #rille.workers())
LUA

# start SCRIPT ARGUMENT OPTIONS...: starts three workers, and the controller in the background
start() {
  local script=$1 argument=$2
  shift 2
  address=tcp://127.0.0.1:$port
  workers=
  for r in 0 1 2; do
    "$rille" worker --join "tcp://127.0.0.1:${joins[r]:-$port}" --rank $r --host host$r -d cpu:1 "$@" 2>worker$r &
    workers+=" $!"
  done
  timeout -k 5 $hang "$rille" coordinator --bind $address --world 3 "$@" $script "$argument" >out 2>err &
  controller=$!
}
# forward BYTES [SECONDS]: starts a program (t/lib/forward.pl) that forwards connections to $port. Sets $via to its
# port.
forward() {
  rm -f via
  perl forward.pl "$port" "$@" >via &
  forwarder=$!
  await [ -s via ]
  via=$(cat via)
}
export RILLE_SILENCE=30 # permits late heartbeats, because this test is about packets
joins=() port=$(free_port)
start job.lua 100
wait $controller
want="0 $(cat out)"
ok "the undisturbed job ends" grep -q $'\t3$' out
wait

# ---- all connections of all workers ----

start job.lua 100
perl cut.pl 4 $workers >cuts
permitted=$?
wait $controller
code=$?
if [ $permitted = 77 ]; then
  skip "connections of workers that end again and again lose no worker and change no bit" "no permission for pidfd_getfd"
else
  is "connections of workers that end again and again lose no worker and change no bit" "$code $(cat out)" "$want"
  ok "$(cat cuts) connections ended" [ "$(cat cuts)" -gt 0 ]
fi
wait

# ---- the connection for packets of one worker, after each number of bytes ----

# try_cuts WHAT [mute]: runs a job for each number of bytes after which the connection ends or carries nothing more
try_cuts() {
  local what=$1 ntried=0 wrong= after
  shift
  for ((after = 0; after < bytes; after += step)); do
    share $((3 * (after / step))) || continue # 3: spreads the cases evenly over eight shares
    port=$(free_port)
    forward $after "$@"
    joins=([1]=$via)
    start job.lua 1 --link 4
    wait $controller
    code=$?
    [ "$code $(cat out)" = "${one:="$code $(cat out)"}" ] && grep -q $'^0 .*\t3$' <<<"$one" || wrong+="$after: $code $(cat out err) "
    kill $forwarder
    wait
    ntried=$((ntried + 1))
  done
  is "a connection that $what after any number of bytes loses no worker and changes no bit ($ntried jobs)" "$wrong" ""
}
bytes=12000 step=${STEP:-331}
try_cuts ends
step=$((5 * step))
try_cuts "stays open but carries nothing" mute

# ---- a connection that is down for longer than --link ----

cat >lost.lua <<'LUA'
local P = rille.placement("cpu", {0, 1, 2})
local x = rille.ones({3, 8}, {placement = P, sbp = "S(0)"})
rille.snapshot{1}
local good, err = pcall(function() while true do (x * 2):sum():item() end end)
assert(not good and rille.is_lost(err) and err:find("worker 1"), err)
os.execute(arg[1] .. " &")
print(rille.recover()[1], (x * 2):sum():item(), #rille.workers())
LUA
unset RILLE_SILENCE
port=$(free_port)
forward 20000 600
joins=([1]=$via)
start lost.lua "$rille worker --join tcp://127.0.0.1:$port --rank 1 --host host1 -d cpu:1" --link 1
wait $controller
is "a worker whose connection is down for longer than --link is lost, and the job recovers" "$? $(cat out)" "0 1	48.0	3"
kill $forwarder
wait
ok "the worker reports the reason" grep -q "the connection to the coordinator ended" worker1
wait

# ---- a dead worker of another host ----

# The other workers notice that their connections to the dead worker have ended, before the coordinator misses its
# heartbeats. The other workers must not be lost.
cat >dead.lua <<'LUA'
local P = rille.placement("cpu", {0, 1, 2})
local x = rille.ones({3, 8}, {placement = P, sbp = "S(0)"})
rille.snapshot{1}
local function pids() local t = {} for k, w in ipairs(rille.workers()) do t[k] = w.pid end return t end
local before = pids()
os.execute("kill -9 " .. before[2])
local good, err = pcall(function() while true do x:to_global{placement = P, sbp = "B"}:sum():item() end end)
assert(not good and rille.is_lost(err) and err:find("worker 1"), err)
os.execute(arg[1] .. " &")
print(rille.recover()[1], (x * 2):sum():item(), pids()[1] == before[1], pids()[3] == before[3])
LUA
port=$(free_port)
joins=()
export RILLE_SILENCE=60
start dead.lua "$rille worker --join tcp://127.0.0.1:$port --rank 1 --host host1 -d cpu:1" --link 1
wait $controller
is "a dead worker is lost after --link, and the workers that cannot reach it stay" "$? $(cat out)" "0 1	48.0	true	true"
wait
finish
