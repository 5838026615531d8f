#!/bin/bash
# Tests elastic jobs: fewer workers continue after a loss, waiting workers are admitted or replace lost ones, and the
# steps have the bits of a training that began with these workers from the same state. Limits of losses. TAP.
rille=$(realpath "$1")
. t/lib/processes.sh
lua=$PWD/lua
cd "$dir" || exit 1

# Usage: train.lua ZERO FROM. Trains 20 steps. FROM: number of steps of the checkpoint to begin with; 0: none. Logs the
# bits of each loss, and saves a checkpoint after each step. Runs the commands in the file before-I before step I, once;
# their arguments are the processes of the last and of the first worker.
cat >train.lua <<'LUA'
local zero, from = math.tointeger(arg[1]), math.tointeger(arg[2])
local log = io.open("log", "w")
log:setvbuf("line")
rille.manual_seed(7)
rille.train.elastic{steps = 20, every = 4,
  load = from > 0 and function(parts)
    return (rille.checkpoint.load("step-" .. from, {model = parts.model, optimizer = parts.optimizer}))
  end or nil,
  make = function(P)
    local net = rille.nn.Sequential(rille.nn.Linear(12, 24), rille.nn.Dropout(0.25), rille.nn.Linear(24, 12))
    net:to_global{placement = P, sbp = "B"}
    local opt = rille.optim.AdamW(net:parameters(), {lr = 0.05})
    local run = rille.graph(function(x)
      local loss = net(x):square():mean()
      loss:backward()
      opt:step()
      opt:zero_grad()
      return loss
    end, {zero = zero})
    return {model = net, optimizer = opt, run = run, place = P}
  end,
  step = function(parts, i)
    if os.rename("before-" .. i, "now") then
      local workers = rille.workers()
      os.execute(("bash ./now %d %d"):format(workers[#workers].pid, workers[1].pid))
    end
    local loss = parts.run(rille.randn({12, 12}, {placement = parts.place, sbp = "S(0)"})):item()
    log:write(("%d %d %a\n"):format(i, #parts.place.ranks, loss))
    rille.checkpoint.save("step-" .. i, {model = parts.model, optimizer = parts.optimizer, step = i}, {keep = 1})
  end}
LUA

# join NUMBER HOST: prints commands that start NUMBER workers; HOST: prefix of their host names, absent: this host
join() { for ((k = 0; k < $1; k++)); do echo "$rille worker --join $address -d cpu:1 --wait 20 ${2:+--host $2$k} >>workers 2>&1 &"; done; }
# waits NUMBER: prints a command that waits until NUMBER workers of the job run and have had time to ask for a rank
waits() { echo "until [ \$(pgrep -fc 'worker --join $address') -ge $1 ]; do sleep 0.1; done; sleep 0.5"; }

# losses LOG WORKERS FROM LAST: prints the last loss of each step from FROM + 1 to LAST that WORKERS workers computed.
losses() { sort -u "$1" | sort -n | awk -v workers="$2" -v from="$3" -v last="$4" '$2 == workers && $1 > from && $1 <= last'; }
# Compares each part of the training, between two changes of the workers, with a training in one process that begins
# with the part's checkpoint.
check_parts() { # check_parts NAME
  local parts=() from workers last k
  while read -r from workers; do parts+=("$from $(tr -dc , <<<"$workers" | wc -c)"); done \
    < <(sed -n 's/.*continues on cpu\(\[.*\]\) after step \([0-9]*\)$/\2 \1/p' err.elastic)
  for ((k = 0; k < ${#parts[@]}; k++)); do
    read -r from workers <<<"${parts[k]}"
    workers=$((workers + 1))
    last=${parts[k + 1]:-20}
    [ "$from" -lt "${last% *}" ] || continue
    go -d cpu:$workers train.lua "$zero" "$from"
    is "$1: steps from $from on have the bits of a training with $workers workers" "$(losses log.elastic $workers "$from" "${last% *}")" \
      "$(losses log $workers "$from" "${last% *}")"
  done
}

# In case 0, workers are on several hosts, and all workers of one host are lost. If the host is lost before its part of the
# snapshot after step 4 was copied to another host, the training goes back to the snapshot after step 2.
for zero in 0 1 2 3; do
  share $((3 * zero)) || continue # 3: every share has at most one case beside case 0
  host=$([ $zero = 0 ] && echo h)
  port=$(free_port)
  address=tcp://127.0.0.1:$port
  rm -rf step-* before-* log
  : >workers
  { join 1 ${host:+g}; waits 2; } >before-2
  echo 'kill -9 $1' >before-7
  { join 3 $host; waits 4; } >before-11
  echo 'kill -9 $1; sleep 0.2' >before-15
  eval "$(join 1)"
  go coordinator --bind $address --world 1:3 train.lua $zero 0
  is "zero = $zero: an elastic job ends" "$code" 0
  cp log log.elastic
  cp err err.elastic
  places=$(grep -o 'cpu\[.*' err | tr '\n' ' ')
  [ -z "$host" ] || places=${places/"cpu[0] after step 2"/cpu[0] after step 4}
  is "zero = $zero: it had two workers, then one, then three" "$places" \
    "cpu[0, 1] after step 2 cpu[0] after step 4 cpu[0, 1, 2] after step 11 "
  check_parts "zero = $zero"
  await eval '! pgrep -f "worker --join $address" >/dev/null'
  ok "zero = $zero: workers that still wait end with the job" [ ! -s workers ]
done

# ---- a spare worker of another host, at the smallest number of workers ----

if share 4; then
  rm -rf step-* before-* log
  address=tcp://127.0.0.1:$(free_port)
  zero=1
  echo 'kill -9 $1' >before-7
  eval "$(join 1 x)"
  eval "$(join 1 x)"
  echo "$(join 1 y)" >before-2
  go coordinator --bind $address --world 2:2 train.lua $zero 0
  cp log log.elastic
  cp err err.elastic
  is "a spare worker of another host replaces a lost one before the next step" \
    "$code $(grep -o 'cpu\[.*' err | tr '\n' ' ')$(awk '$2 != 2' log)" "0 cpu[0] after step 4 cpu[0, 1] after step 4 "
  check_parts "a spare of another host"
fi

# ---- no worker is left on the controller's host ----

# The worker of the controller's host is killed, and cannot be started again. The worker of another host continues.
zero=1
for how in coordinator launch; do
  rm -rf step-* before-* log lua
  mkdir lua
  ln -s "$lua"/* lua
  echo 'rm lua/nn.lua; kill -9 $2' >before-7 # without its file nn.lua, a program does not start
  if [ $how = coordinator ]; then
    address=tcp://127.0.0.1:$(free_port)
    { join 1 x; waits 2; } >before-2
    eval "$(join 1)"
    go coordinator --bind $address --world 1:2 train.lua $zero 0
  else
    RILLE_LUA_DIR=$dir/lua RILLE_HOSTS=2 go launch -n 1:2 -d cpu:1 train.lua $zero 0
  fi
  is "$how: a job continues without a worker on the controller's host" "$code $(grep -o 'cpu\[.*' err | tail -n 1)" "0 cpu[1] after step 4"
  cp log log.elastic
  cp err err.elastic
  check_parts "$how, without a worker on the controller's host"
done

# ---- workers that the program starts ----

# Usage: crash.lua TIMES WHEN. Kills the last worker TIMES times: in a step (WHEN = "here"), or between two steps.
cat >crash.lua <<'LUA'
local times, here, killed = math.tointeger(arg[1]), arg[2] == "here", 0
local P = rille.placement("cpu", {0, 1})
local w = rille.ones({2, 4}, {placement = P, sbp = "S(0)", requires_grad = true})
local x, y = rille.ones({2048, 2048}, {placement = P, sbp = "S(0)"}), rille.ones({2048, 2048}, {placement = P, sbp = "B"})
local i = 0
rille.snapshot(0)
while i < 8 do
  local good, err = pcall(function()
    if i == 3 and killed < times then
      killed = killed + 1
      local pid = rille.workers()[2].pid
      if here then
        os.execute("(until $RILLE status $PPID | grep -q 'worker 1 .*runs matmul'; do sleep 0.1; done; kill -9 " .. pid .. ") &")
        while true do x:matmul(y):sum():item() end
      end
      os.execute("kill -9 " .. pid)
    end
    (w * 2):sum():item()
    i = i + 1
  end)
  if not good then
    if not rille.is_lost(err) then error(err, 0) end
    i = rille.recover()
  end
end
print(i, #rille.workers())
LUA
go launch -n 1:2 -d cpu:1 crash.lua 1 between
is "a started worker of an elastic job is replaced" "$code $stdout" "0 8	2"
go launch -n 2 -d cpu:1 --restarts 2:60 crash.lua 3 between
ok "more losses than --restarts permits end the job" ends 3 "recover: expected at most 2 losses of workers in 60 s (--restarts 2:60), found 3 in"
go launch -n 2 -d cpu:1 --restarts 1:0.001 crash.lua 3 between
is "losses at longer intervals are recovered" "$code $stdout" "0 8	2"
export RILLE=$rille
go launch -n 2 -d cpu:1 crash.lua 9 here
# permits nine losses, because a kill can hit another operator call than the one that counts
ok "three losses at the same place end the job, with the place" ends 1 "3 losses in succession there, after the same snapshot: worker 1" \
  "while it ran matmul (crash.lua:"
for bad in -n\ 3:2 -n\ 0:2 -n\ : -n\ 2:x "-n 2 --restarts 3" "-n 2 --restarts 64:1" "-n 2 --restarts 1:0" "-n 2 --restarts 1:x"; do
  go launch $bad -d cpu:1 -e ''
  ok "launch $bad is refused" ends 2 "must be"
done
finish
