#!/bin/bash
# notice.sh path/to/rille - tests signals and files that ask a job to stop: rille.stopping,
# rille.train.exit_if_stopping, and the end of programs that use neither. Cases: each signal; one process, two
# workers, process 1 of a pid namespace, ranks of a launcher. No processes or files may be left. TAP.
rille=$(realpath "$1")
. t/lib/processes.sh
cp t/lib/steps/small.lua "$dir"
cd "$dir" || exit 2
shm=$(ls /dev/shm)

tell() { head -20 out err 2>/dev/null; }

# Runs steps without end, at most 50 a second. Argument "asks": ends by exit_if_stopping. Argument "only": calls rille.stopping, but does
# not end.
cat >steps.lua <<'LUA'
local placement = rille.placement("cpu", {0, 1})
local w = rille.zeros({64, 64}, {placement = placement, sbp = "S(0)", requires_grad = true})
local opt = rille.optim.SGD({w}, {lr = 1e-3})
local step = rille.graph(function()
  local loss = (w - 1):square():sum()
  loss:backward() opt:step() opt:zero_grad()
  return loss
end)
local options = {signals = {"TERM", "USR1", "USR2", "HUP"}, file = arg[2]}
if arg[1] then rille.stopping(options) end
for i = 1, math.huge do
  step():item()
  if i == 1 then
    for _, worker in ipairs(rille.workers()) do io.stdout:write(worker.pid, " ") end
    io.stdout:write("up\n"):flush()
  end
  if arg[1] == "asks" then rille.train.exit_if_stopping("ckpt", {optimizer = opt, step = i}, {keep = 1}) end
  if arg[1] == "only" then assert(rille.stopping() == rille.stopping()) end
  os.execute("sleep 0.02")
end
LUA

# start COMMAND...: runs the command in the background and waits for its first step. Sets $pid, and $workers to the
# pids of its workers.
start() {
  : >out
  "$@" >out 2>err </dev/null & pid=$!
  await eval "grep -q up out || are_gone $pid"
  workers=$(sed 's/ *up$//' out)
}
# stops SIGNAL...: sends the signals to $pid; sets $code
stops() { local s; for s; do kill -"$s" "$pid" 2>/dev/null; done; wait "$pid"; code=$?; }
left() { [ -z "$(find run tmp -mindepth 1)" ] && [ "$(ls /dev/shm)" = "$shm" ]; }
# inside SIGNAL: sends the signal to the child of $pid, which is process 1 of its pid namespace
inside() { kill -"$1" "$(pgrep -P "$pid")"; wait "$pid"; code=$?; }

declare -A number=([TERM]=15 [USR1]=10 [USR2]=12 [HUP]=1)
one=("$rille" -d cpu:2) two=("$rille" launch -n 2 -d cpu:1)
namespace=(unshare -pf --mount-proc)
"${namespace[@]}" true 2>/dev/null || namespace=()

# ---- every signal, for programs with and without rille.stopping ----

i=0
for signal in TERM USR1 USR2 HUP; do
  for how in one two; do
    share $((i++)) || continue
    command=("${one[@]}")
    [ $how = one ] || command=("${two[@]}")
    start "${command[@]}" steps.lua
    stops $signal
    last= # a job with workers also prints its duration
    [ $how = one ] || last=" rille: steps.lua ended at T after T: SIG$signal, exit code $((128 + ${number[$signal]}))"
    ok "SIG$signal ends a program ($how), and stderr says so" eval \
      '[ "$code" = $((128 + ${number[$signal]})) ] && [ "$(sed -E "s/ at .* after [0-9.]+ [a-z]+:/ at T after T:/" err | xargs)" = "rille: ended by SIG$signal$last" ]'
    [ $how = one ] || ok "its workers end" await are_gone $workers
    rm -rf ckpt
    start "${command[@]}" steps.lua asks
    stops $signal
    ok "SIG$signal ends a script that asks ($how), after a checkpoint" eval \
      '[ "$code" = 75 ] && says "rille: stops (SIG$signal), checkpoint saved to ckpt; exit code 75" && ls ckpt/*.safetensors'
    [ $how = one ] || ok "its workers end after the checkpoint" await are_gone $workers
    if [ ${#namespace[@]} = 0 ]; then
      skip "process 1, SIG$signal" "unshare is not allowed"
      continue
    fi
    start "${namespace[@]}" "${command[@]}" steps.lua
    inside $signal
    ok "SIG$signal ends process 1, $how" ends $((128 + ${number[$signal]})) "rille: ended by SIG$signal"
    start "${namespace[@]}" "${command[@]}" steps.lua asks
    inside $signal
    ok "SIG$signal ends a script in process 1 that asks, $how" ends 75 "rille: stops (SIG$signal)"
  done
done

# ---- signals of workers ----

for signal in TERM USR1; do
  share $((i++)) || continue
  start "${two[@]}" steps.lua asks
  kill -$signal "${workers##* }"
  stops
  ok "a worker passes SIG$signal on to a script that asks" ends 75 "rille: stops (SIG$signal of worker 1)"
  start "${two[@]}" steps.lua
  kill -$signal "${workers##* }"
  stops
  ok "without a script that asks, SIG$signal of a worker is a loss" ends 3 "worker 1 (" "was ended by signal ${number[$signal]}"
done
if [ ${#namespace[@]} = 0 ]; then
  skip "a worker as process 1" "unshare is not allowed"
else
  "${namespace[@]}" "$rille" worker --join "tcp://127.0.0.1:$(free_port)" -d cpu:1 2>err & pid=$!
  await pgrep -P $pid >/dev/null
  until are_gone $pid; do pkill -TERM -P $pid; sleep 0.1; done
  wait $pid
  code=$?
  ok "SIGTERM ends a worker that waits for its coordinator, as process 1" ends 143 "rille: ended by SIGTERM"
fi

# hosts SCRIPT...: starts a coordinator and two workers with different host names. Sets $pid and ${worker[@]} to their
# pids.
hosts() {
  local address=tcp://127.0.0.1:$(free_port) r
  : >out
  "$rille" coordinator --bind "$address" --world 2 "$@" >out 2>err </dev/null & pid=$!
  for r in 0 1; do "$rille" worker --join "$address" -d cpu:1 --rank $r --host h$r 2>err$r </dev/null & worker[r]=$!; done
  await eval "grep -q up out || are_gone $pid"
}
for signal in TERM USR1; do
  share $((i++)) || continue
  hosts steps.lua asks
  kill -$signal ${worker[1]}
  stops
  ok "a worker of another host passes SIG$signal on" ends 75 "rille: stops (SIG$signal of worker 1)"
  for r in 0 1; do wait ${worker[r]}; is "and worker $r ends with the job's exit code after SIG$signal" $? 75; done
  hosts steps.lua
  kill -$signal ${worker[1]}
  stops
  ok "SIG$signal of a worker of another host is a loss" ends 3 "was ended by signal ${number[$signal]}"
  wait ${worker[1]}
  is "and that worker reports SIG$signal, and when it ended" "$? $(sed -E 's/ at .* after [0-9.]+ s/ at T after T/' err1 | xargs)" \
    "$((128 + ${number[$signal]})) rille: ended by SIG$signal rille: worker ended at T after T, exit code $((128 + ${number[$signal]}))"
  wait ${worker[0]}
done

# ranks SCRIPT...: starts both ranks of a launcher. Sets $pid and $second to their pids.
ranks() {
  : >out
  env "${rank0[@]}" "$rille" -d cpu:1 "$@" >out 2>err </dev/null & pid=$!
  env "${rank1[@]}" "$rille" -d cpu:1 "$@" 2>/dev/null </dev/null & second=$!
  await eval "grep -q up out || are_gone $pid"
}
for launcher in torchrun "Open MPI"; do
  share $((i++)) || continue
  common=(MASTER_ADDR=127.0.0.1 "MASTER_PORT=$(free_port)" RILLE_TRANSPORT=tcp)
  if [ "$launcher" = torchrun ]; then
    rank0=("${common[@]}" RANK=0 WORLD_SIZE=2) rank1=("${common[@]}" RANK=1 WORLD_SIZE=2)
  else
    common+=(OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=a)
    rank0=("${common[@]}" OMPI_COMM_WORLD_RANK=0 PMIX_RANK=0) rank1=("${common[@]}" OMPI_COMM_WORLD_RANK=1 PMIX_RANK=1)
  fi
  ranks steps.lua asks
  kill -TERM $second
  stops
  ok "$launcher: SIGTERM of rank 1 alone is passed on" ends 75 "rille: stops (SIGTERM of worker 1)"
  wait $second
  is "$launcher: rank 1 ends with the job's exit code" $? 75
  ranks steps.lua
  kill -TERM $second $pid
  stops
  ok "$launcher: SIGTERM of both ranks ends the job" [ "$code" = 143 ]
  ok "$launcher: no rank is left" await are_gone $second
done

# ---- file, second signal, ignored signals ----

start "${one[@]}" steps.lua asks stop
touch stop
stops
ok "a file ends a script that asks" ends 75 "rille: stops (file stop), checkpoint saved to ckpt"
start "${two[@]}" steps.lua only
until are_gone $pid; do kill -TERM $pid 2>/dev/null; sleep 0.1; done
stops
ok "a later signal ends a script that asks and does not end" ends 143 "rille: ended by SIGTERM"
ok "its workers end" await are_gone $workers
start "${one[@]}" steps.lua asks
stops TERM USR1 TERM
ok "signals at the same time count as one" ends 75 "rille: stops (SIG"
start bash -c 'trap "" HUP; exec "$@"' - "${one[@]}" steps.lua
stops HUP TERM
ok "a signal that the parent process ignores stays ignored" ends 143 "rille: ended by SIGTERM"
echo 'io.stdout:write("up\n"):flush() while true do pcall(function() while true do end end) end' >catches.lua
start "${one[@]}" catches.lua
stops TERM
ok "a script cannot catch the end" ends 143 "rille: ended by SIGTERM"

# ---- a job that is queued again ----

cat >train.lua <<'LUA'
local net, opt, step, batch = dofile "small.lua"
local part = {model = net, optimizer = opt}
local good, i = pcall(rille.checkpoint.load, "run.ckpt", part)
if not good then i = 0 end
local log = io.open("log", "a")
while i < 30 do
  local loss = step(batch()):item()
  i = i + 1
  log:write(("%d %a\n"):format(i, loss))
  log:flush()
  if arg[1] and (i == 7 or i == 20) then os.execute("kill -USR1 $PPID") end
  part.step = i
  rille.train.exit_if_stopping("run.ckpt", part, {code = 80, keep = 1})
end
LUA
go -d cpu:4 train.lua
want=$(cat log)
for how in "-d cpu:4" "launch -n 2 -d cpu:2"; do
  share $((i++)) || continue
  rm -rf log run.ckpt
  codes=
  for _ in 1 2 3 4; do
    go $how train.lua stops
    codes+="$code "
    [ $code = 80 ] || break
  done
  is "$how: a job that is stopped twice runs again until it is done" "$codes" "80 80 0 "
  is "$how: its losses equal those of a run without a stop" "$(cat log)" "$want"
done

ok "no socket and no shared memory is left" await left
finish
