#!/bin/bash
# ends.sh path/to/rille - tests that the end of a job with workers is always reported: each end of the table, with each
# launcher. The controller's stderr and log must say when and by what the job ended, once; the exit codes of controller
# and workers must agree; and no process may be left. TAP.
rille=$(realpath "$1")
. t/lib/processes.sh
cd "$dir" || exit 2
mkdir bin
cat >bin/ssh <<'SSH'
#!/bin/bash
exec bash -c "${*: -1} --host ${*: -2:1}"
SSH
chmod +x bin/ssh
PATH=$dir/bin:$PATH
tell() { tail -n 20 err err0 err1 log 2>/dev/null; }

cat >end.lua <<'LUA'
local x = rille.ones({8, 8}, {placement = rille.placement("cpu", {0, 1}), sbp = "S(0)"})
local function work() repeat x:sum():item() until false end
local function signal(name) return function() os.execute("kill -" .. name .. " $PPID") work() end end
local ends = {
  finish = function() x:sum():item() end,
  error = function() error("a fault of the script", 0) end,
  exit = function() os.exit(5) end,
  wide = function() os.exit(-251) end,
  close = function() os.exit(5, true) end,
  lost = function() os.execute("kill -9 " .. rille.workers()[2].pid) work() end,
  memory = function() return rille.zeros({1 << 20, 1 << 20}):sum():item() end,
  TERM = signal("TERM"),
  twice = function()
    rille.stopping()
    os.execute("kill -TERM $PPID; sleep 1.2; kill -TERM $PPID")
    work()
  end,
  KILL = signal("KILL"),
  ABRT = signal("ABRT"),
  PIPE = function()
    local pipe = io.popen("true", "w")
    while true do pipe:write("a line\n"):flush() end
  end,
}
ends[arg[1]]()
LUA

# Columns: end; exit code; reason; exit code of workers that join by hand, and of a launcher's ranks. Workers that join by
# hand exit with 1 if a signal, or os.exit() without `true`, ends the coordinator, because they are left to the next one.
table="
KILL   137 the_controller_(process_N)_was_killed 1 1
finish 0   the_program_finished                 0 0
error  1   an_error,                            1 1
exit   5   os.exit,                             1 5
close  5   os.exit,                             5 5
wide   5   os.exit,                             1 5
lost   3   a_worker_was_lost,                   3 3
memory 1   an_error,                            1 1
TERM   143 SIGTERM,                             1 143
twice  143 SIGTERM,                             1 1
ABRT   134 the_controller_(process_N)_was_killed 1 1
PIPE   141 SIGPIPE,                             1 1"

# begin LAUNCHER END: runs the job. Sets $code, and $workers to the exit codes of the workers that this test starts.
begin() {
  local address=tcp://127.0.0.1:$(free_port) options="--log log end.lua $2" pids=() r
  workers=
  case $1 in
    launch) go launch -n 2 -d cpu:1 $options ;;
    ssh) go launch -H a,b --bind $address -d cpu:1 $options ;;
    hand)
      for r in 0 1; do timeout -k 5 $hang "$rille" worker --join $address --rank $r -d cpu:1 2>err$r & pids+=($!); done
      go coordinator --bind $address --world 2 $options ;;
    ranks)
      local rank=(env MASTER_ADDR=127.0.0.1 MASTER_PORT=${address##*:} WORLD_SIZE=2)
      timeout -k 5 $hang "${rank[@]}" RANK=1 "$rille" -d cpu:1 $options 2>err1 & pids+=($!)
      timeout -k 5 $hang "${rank[@]}" RANK=0 "$rille" -d cpu:1 $options >out 2>err
      code=$? ;;
  esac
  for r in "${pids[@]}"; do wait $r; workers+="$? "; done 2>/dev/null
}
reported() { # reported END: prints the reason on stderr, with spaces replaced, without times
  sed -nE "s/^rille: end.lua ended at [0-9-]+ [0-9:]+ UTC after [0-9.]+ s: (.*)/\1/p" err | sed -E 's/process [0-9]+/process N/' | tr ' ' _
}
logged() { sed -nE 's/.*"event": ?"end".*"reason": ?"([^"]*)".*/\1/p' log | sed -E 's/process [0-9]+/process N/' | tr ' ' _; }

i=0
for launcher in launch ssh hand ranks; do
  while read -r end want reason hand ranks; do
    [ -n "$end" ] && share $((i++)) || continue
    rm -f log err*
    begin $launcher $end 2>/dev/null
    await eval 'grep -q "\"end\"" log'
    line=$reason
    case $line in *,) line+="_exit_code_$want" ;; esac
    [ $want = 0 ] && line= # a short job that succeeds prints nothing
    is "$launcher, $end: exit code, and the line on stderr" "$code $(reported)" "$want $line"
    is "$launcher, $end: the log has one end" "$(logged)" "${reason%,}"
    case $launcher in hand) want="$hand $hand " ;; ranks) want="$ranks " ;; *) want= ;; esac
    if [ $end = lost ]; then want=${want/3 3/3 137}; [ $launcher = ranks ] && want="137 "; fi
    is "$launcher, $end: exit codes of the workers" "$workers" "$want"
    ok "$launcher, $end: no process is left" await eval '! pgrep -f "$dir|--log log end.lua $end" >/dev/null'
  done <<<"$table"
done
# The process that reports the end of a killed controller may itself be killed, or be left without a report to make.
watcher() { pgrep -P $pid -f "launch -n 2"; } # prints the reporting process of the job $pid
for end in TERM finish; do
  sleep=5; [ $end = finish ] && sleep=1
  rm -f err # the text of the previous job must not be found
  "$rille" launch -n 2 -d cpu:1 -e "io.stderr:write('ready\n') os.execute('sleep $sleep')" >out 2>err & pid=$!
  await grep -q ready err
  kill -9 $(watcher)
  [ $end = TERM ] && kill -TERM $pid
  wait $pid
  is "$end: the exit code is right although the reporting process was killed" $? $([ $end = TERM ] && echo 143 || echo 0)
done 2>/dev/null

# A controller that was stopped until its workers have left reports the end as soon as it continues.
are_zombies() { local w; for w; do grep -q ') Z' /proc/$w/stat || return 1; done; }
echo 'local x = rille.ones({8, 8}, {placement = rille.placement("cpu", {0, 1}), sbp = "S(0)"})
io.stderr:write("ready\n")
local began = rille.clock()
repeat x:sum():item() until rille.clock() - began > 60' >lasting.lua
for hosts in 1 2; do
  rm -f err
  RILLE_HOSTS=$hosts "$rille" launch -n 2 -d cpu:1 --orphan 1 lasting.lua >out 2>err & pid=$!
  await grep -q ready err
  left=$(pgrep -P $pid -f "worker --stdin")
  kill -STOP $pid
  await are_zombies $left
  began=$SECONDS
  kill -CONT $pid
  wait $pid
  is "a controller that was stopped, $hosts hosts: exit code" $? 3
  ok "a controller that was stopped, $hosts hosts: reports its end at once" [ $((SECONDS - began)) -le 5 -a -n "$(grep 'a worker was lost, exit code 3' err)" ]
done 2>/dev/null

rm -f log
go launch -n 2 --collectives foo --log log -e 'print(1)'
is "a wrong option: one line on stderr" "$code $(cat err)" '2 rille: collectives must be "own" or "nccl", found "foo"'
is "a wrong option: the log has one end" "$(logged)" an_error
timeout $hang "$rille" launch -n 2 -d cpu:1 -e 'print(1)' >/dev/full 2>err
is "a full disk under stdout is named" "$? $(cat err)" "1 rille: the output could not be written: No space left on device"
rm -f log
timeout $hang "$rille" launch -n 2 -d cpu:1 --log log -e 'while true do print(1) end' 2>err | head -1 >out
is "a reader that ends early: exit code, and no line on stderr" "${PIPESTATUS[0]} $(cat out err)" "141 1"
await eval 'grep -q "\"end\"" log'
is "a reader that ends early: the log has one end" "$(logged)" SIGPIPE
ok "a reader that ends early: no process is left" await eval '! pgrep -f "$dir|--log log -e while" >/dev/null'
for end in KILL PIPE; do
  rm -f log
  case $end in
  KILL) "$rille" -d cpu:1 --log log -e 'os.execute("kill -KILL $PPID; sleep 1")' >out 2>err; code=$? ;;
  PIPE) timeout $hang "$rille" -d cpu:1 --log log -e 'while true do print(1) end' 2>err | head -1 >/dev/null; code=${PIPESTATUS[0]} ;;
  esac
  await eval 'grep -q "\"end\"" log'
  is "a program without workers, SIG$end: exit code, and no line on stderr" "$code $(cat err)" "$((128 + $(kill -l $end))) "
  is "a program without workers, SIG$end: the log has one end" "$(logged)" "$([ $end = KILL ] && echo "the_program_(process_N)_was_killed" || echo SIGPIPE)"
done 2>/dev/null
env --default-signal=INT "$rille" coordinator --bind tcp://127.0.0.1:$(free_port) --world 2 -e 'print(1)' 2>err >/dev/null & pid=$!
await eval '[ "$(pgrep -P $pid)" ]'
kill -INT $pid
wait $pid 2>/dev/null
is "Ctrl-C before the workers have joined: exit code" $? 130
ok "Ctrl-C before the workers have joined is named" await says ": Ctrl-C, exit code 130"
timeout $hang "$rille" launch -n 2 -d cpu:1 -e 'os.execute("kill -ALRM $PPID; sleep 1")' 2>err >/dev/null
ok "SIGALRM is named" says "ended by SIGALRM" "SIGALRM, exit code 142"
ok "no socket is left" await eval '[ -z "$(find run tmp -mindepth 1)" ]'
finish
