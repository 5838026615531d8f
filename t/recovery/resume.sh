#!/bin/bash
# resume.sh path/to/rille - tests rille.train.resume: after the controller of kept workers is killed, the same command
# continues from the workers' snapshot, with the bits of an undisturbed run. TAP.
rille=$(realpath "$1")
. t/lib/processes.sh
cd "$dir" || exit 2

tell() { head -20 err log 2>/dev/null; }

# Appends its first step, its steps and its workers to log, and writes the final weights to the file final. Arguments:
# number of steps between snapshots; step after which the controller kills itself, and seconds from then to the kill;
# ranks of workers that the script kills and replaces one step earlier. Step 0: the kill follows train.resume.
cat >train.lua <<'LUA'
local P = rille.placement("cpu", {0, 1, 2, 3})
rille.manual_seed(3)
local net = rille.nn.Sequential(rille.nn.Linear(8, 16), rille.nn.Dropout(0.3), rille.nn.Linear(16, 4))
net:to_global{placement = P, sbp = "S(0)"}
local scale = rille.nn.Parameter(rille.ones({4}, {placement = P, sbp = "B"}))
local params = {scale}
for _, p in net:named_parameters() do params[#params + 1] = p end
local opt = rille.optim.AdamW(params, {lr = 0.1})
local step = rille.graph(function(x, y)
  local loss = (net(x) * scale):cross_entropy(y)
  loss:backward() opt:step() opt:zero_grad()
  return loss
end)
local y = rille.tensor({0, 1, 2, 3}, {dtype = "i64", placement = P, sbp = "S(0)"})
local every, stop, delay, ranks = tonumber(arg[1]), tonumber(arg[2]) or -1, arg[3], arg[4] or ""
local function kill(pid) os.execute(("(sleep %s; kill -9 %s) %s"):format(delay, pid, delay == "0" and "" or "&")) end
local note = rille.train.resume{model = net, optimizer = opt}
local i = note and note.step or 0
local log = io.open("log", "a")
log:setvbuf("line")
for _, w in ipairs(rille.workers()) do log:write(("worker %d %d\n"):format(w.rank, w.pid)) end
log:write(("begin %d\n"):format(i))
if stop == 0 then kill("$PPID") end
rille.snapshot{step = i}
local function advance()
  local loss = step(rille.randn({4, 8}, {placement = P, sbp = "S(0)"}), y):item()
  i = i + 1
  log:write(("step %d %a\n"):format(i, loss))
  if i == stop then kill("$PPID") end
  if i % every == 0 then rille.snapshot{step = i} end
end
while i < 12 do
  if i == stop - 1 and ranks ~= "" then
    for rank in ranks:gmatch("%d") do kill(rille.workers()[rank + 1].pid) end
    ranks = ""
  end
  local good, why = pcall(advance)
  if not good and not rille.is_lost(why) then error(why, 0) end
  if not good then i = rille.recover().step end
end
local final = io.open("final", "w")
for _, p in ipairs(params) do
  for _, v in ipairs(p:to_global{placement = P, sbp = "B"}:reshape{-1}:totable()) do final:write(("%a\n"):format(v)) end
end
final:close()
LUA

go -d cpu:4 train.lua 5
want=$(cat final)
sed 's/"cpu"/"async"/' train.lua >async.lua # devices whose memory only their worker can read
ok "one process trains twelve steps" [ "$(grep -c step log)" = 12 ]

address=tcp://127.0.0.1:$(free_port)
# begin ARGUMENTS...: starts the training, or continues it
begin() { go launch -n 4 -d $devices --keep 60 --bind "$address" $script "$@"; }
devices=cpu:1 script=train.lua
pids() { awk -v ranks=" $* " '/^worker/ && index(ranks, " " $2 " ") {print $3}' log; } # pids RANK...: prints process numbers

# attempt HOSTS EVERY STOP DELAY RANKS [EARLIER]: trains, kills the workers EARLIER and recovers, kills the controller DELAY
# seconds after step STOP, then the workers RANKS, and continues
attempt() {
  local hosts=$1 every=$2 stop=$3 delay=$4 ranks=$5 earlier=${6:-} last
  local what="$devices, $hosts host(s), ${earlier:+worker(s) $earlier replaced, }killed $delay s after step $stop${ranks:+, then worker(s) $ranks}"
  export RILLE_HOSTS=$hosts
  rm -f log final
  begin "$every" "$stop" "$delay" "$earlier" 2>/dev/null # without the shell's line on the kill
  [ -z "$ranks" ] || kill -9 $(pids $ranks) 2>/dev/null # one of them may be an earlier process of its rank
  last=$(awk '/^step/ {n = $2} END {print n}' log)
  if [ -f final ]; then # the training was faster than the kill
    await are_gone $(pids 0 1 2 3)
    return
  fi
  begin "$every"
  is "$what: the weights equal those of an undisturbed run" "$code $(cat final)" "0 $want"
  local first=$(awk '/^begin/ {n = $2} END {print n}' log)
  ok "$what: at most $every steps are repeated ($((last - first)))" [ "$first" -gt 0 -a $((last - first)) -le "$every" ]
  ok "$what: stderr reports it" says "train.resume: continues from the snapshot of the previous controller"
}
number=0
for hosts in 1 2; do
  for ranks in "" 0 "1 2" "0 1" "2 3" "0 1 3"; do
    share $number && attempt $hosts 5 $((6 + number % 4)) 0 "$ranks"
    number=$((number + 1))
  done
  for delay in 0.002 0.004 0.006 0.008; do # a snapshot after each step: the kill often interrupts one
    share $number && attempt $hosts 1 5 $delay ""
    number=$((number + 1))
  done
done
for earlier in 0 "1 2" "2 3"; do # all workers of the second host are replaced, and then those of the first host are lost
  share $number && attempt 2 5 8 0 "0 1" "$earlier"
  number=$((number + 1))
done
if share $number; then
  export RILLE_HOSTS=2
  rm -f log final
  begin 5 7 0 2>/dev/null
  for _ in 1 2; do begin 5 0 0 2>/dev/null; done # killed before their first snapshot
  begin 5
  is "the snapshot stays until the next controller has stored one" "$code $(cat final) $(grep begin log | tr '\n' ' ')" \
    "0 $want begin 0 begin 5 begin 5 begin 5 "
fi
number=$((number + 1))
devices=async:1,cpu:1 script=async.lua
for ranks in "" 1; do
  share $number && attempt 1 5 8 0 "$ranks"
  number=$((number + 1))
done
devices=cpu:1 script=train.lua
unset RILLE_HOSTS

# ---- other programs, and workers without a snapshot ----

rm -f log final
begin 5 7 0 2>/dev/null
echo 'print(rille.train.resume{model = rille.nn.Linear(3, 3)})' >other.lua
go launch -n 4 -d cpu:1 --keep 60 --bind "$address" other.lua
is "another program does not continue from the snapshot" "$code $stdout" "0 nil"
ok "it reports what differs" says "does not continue from the workers' snapshot" "'model.weight'"
go launch -n 4 -d cpu:1 --keep 60 --bind "$address" -e 'rille.snapshot() os.execute("kill -9 $PPID")' 2>/dev/null
go launch -n 4 -d cpu:1 --keep 60 --bind "$address" other.lua
is "workers without a snapshot of a training: nil" "$code $stdout" "0 nil"
ok "a line reports this" says "train.resume: the workers keep no snapshot of a training"
go launch -n 4 -d cpu:1 other.lua
is "the first controller reports nothing" "$code $stdout $stderr" "0 nil "
ok "no file is left" [ -z "$(ls -A run tmp | grep -v ':$' | tr -d '\n')" ]
finish
