#!/bin/bash
# keep.sh path/to/rille - tests --keep: workers continue after their controller is killed, and the next controller at
# its address takes over the same processes. Training resumes from the checkpoint with the same bits. TAP.
rille=$(realpath "$1")
. t/lib/processes.sh
cp t/lib/steps/small.lua "$dir"
cd "$dir" || exit 2

tell() { head -20 err log 2>/dev/null; }

# Resumes from the last checkpoint. Appends the losses of its steps and the process ids of its workers to log.
cat >train.lua <<'LUA'
local net, opt, step, batch = dofile "small.lua"
local part = {model = net, optimizer = opt}
local good, i = pcall(rille.checkpoint.load, "ckpt", part)
if not good then i = 0 end
local pids = {}
for _, w in ipairs(rille.workers()) do pids[#pids + 1] = w.pid end
local log = io.open("log", "a")
log:setvbuf("line")
log:write("workers ", table.concat(pids, " "), "\n")
while i < 40 do
  local loss = step(batch()):item()
  i = i + 1
  log:write(("%d %a\n"):format(i, loss))
  if i % 3 == 0 then
    part.step = i
    rille.checkpoint.save("ckpt", part, {keep = 2})
  end
  if arg[1] == "slow" then os.execute("sleep 0.05") end
end
LUA
steps() { sort -n -u log | grep -v workers; } # prints the steps in order, each with its first loss in the log
processes() { grep workers log | sort -u | wc -l; }

: >log
go -d cpu:4 train.lua
want=$(steps)
ok "one process trains forty steps" [ "$(wc -l <<<"$want")" = 40 ]

for how in "launch -n 4" "launch -n 4 of 2" "coordinator --world 4"; do
  port=$(free_port)
  hosts=1 command=$how
  case $how in *of*) hosts=2 command="launch -n 4" ;; esac
  export RILLE_HOSTS=$hosts
  : >log
  rm -rf ckpt
  kept=()
  address=tcp://127.0.0.1:$port
  if [ "$command" = "launch -n 4" ]; then
    command="launch -n 4 -d cpu:1 --keep 60"
  else
    for r in 0 1 2 3; do "$rille" worker --join "$address" -d cpu:1 --keep 60 2>"worker$r" & kept+=($!); done
  fi
  for stop in 4 14 24 last; do
    # setsid: the workers must not end with the terminal or shell job of the controller
    setsid "$rille" $command --bind "$address" train.lua slow >>out 2>>err </dev/null &
    controller=$!
    [ $stop = last ] && break
    await grep -q "^$stop " log
    kill -9 $controller
    wait $controller 2>/dev/null
  done
  await are_gone $controller || kill -9 $controller
  wait $controller
  is "$how, killed three times: the last controller ends with 0" $? 0
  is "$how: the losses equal those of one process" "$(steps)" "$want"
  is "$how: all controllers had the same four workers" "$(processes)" 1
  pids=$(sed -n 's/^workers //p' log | head -1)
  ok "$how: the workers end with the job" await are_gone $pids
  for p in "${kept[@]}"; do wait $p || ok "a kept worker ends with 0" false; done
done
unset RILLE_HOSTS
ok "a worker reports that it waits for the next coordinator" grep -q "waiting for the next coordinator" worker0

# ---- no controller follows, or a wrong one ----

echo 'io.stdout:write("up\n") io.stdout:flush() os.execute("exec sleep 60")' >sleep.lua
orphan() { # orphan SECONDS: starts a controller with one kept worker, and kills it
  port=$(free_port)
  address=tcp://127.0.0.1:$port
  "$rille" worker --join "$address" -d cpu:1 --keep "$1" 2>worker &
  worker=$!
  : >up
  "$rille" coordinator --bind "$address" --world 1 sleep.lua >up 2>/dev/null &
  controller=$!
  await grep -q up up
  local child=$(pgrep -P $controller)
  kill "-${2:-KILL}" $controller
  kill $child
  wait $controller 2>/dev/null
}
orphan 1
wait $worker
is "a worker without a next controller ends with 1" $? 1
ok "a worker without a next controller reports why it ends" grep -q "no coordinator answered" worker
port=$(free_port)
address=tcp://127.0.0.1:$port
: >up # an earlier "up" would end the wait at once
setsid "$rille" launch -n 1 -d cpu:1 --keep 60 --bind "$address" -e 'print(rille.workers()[1].pid)' sleep.lua >up 2>/dev/null </dev/null &
controller=$!
await grep -q up up
child=$(pgrep -P $controller sleep)
kill -9 $controller
kill $child
wait $controller 2>/dev/null
go launch -n 1 -d cpu:2 --keep 60 --bind "$address" -e 'print(1)'
ok "a controller that needs other devices than kept workers have is refused" ends 2 "has devices cpu:1, expected cpu:2"
go launch -n 1 -d cpu:1 --keep 60 --bind "$address" -e 'print(rille.workers()[1].pid)'
is "the kept workers stay after the refusal" "$code $(cat out)" "0 $(head -1 up)"
orphan 60 TERM
ok "SIGTERM of the controller does not end the job" kill -0 $worker
go coordinator --bind "$address" --world 1 -e 'print(#rille.workers())'
wait $worker
is "a worker ends with 0 when the job is done" "$? $code $(cat out)" "0 0 1"
orphan 60
"$rille" keys >key
go worker --join "$address" -d cpu:1 --keep x
ok "--keep must be a number" ends 2 "--keep must be a number of seconds from 1 to 16777216, found 'x'"
go coordinator --bind "$address" --world 1 --keep 5 -e ''
ok "--keep is refused for a coordinator" ends 2 "coordinator: expected one of the options" "found --keep"
go launch -n 2 --keep 5 -e ''
ok "launch --keep requires --bind" ends 2 "--keep needs --bind"
go launch -H a:1 --bind tcp://127.0.0.1:$port --keep 5 -e ''
ok "launch -H --keep requires --key-file" ends 2 "--keep needs --key-file"
(timeout $hang "$rille" coordinator --bind "$address" --world 1 --key-file key sleep.lua >up 2>&1 &)
wait $worker
is "a kept worker refuses a coordinator with another key" $? 1
ok "the worker reports the wrong key" grep -q "refuses this worker's key" worker
pkill -f "[c]oordinator --bind $address"
ok "no file is left" [ -z "$(ls -A run tmp | grep -v ':$' | tr -d '\n')" ]
finish
