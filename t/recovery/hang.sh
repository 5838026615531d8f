#!/bin/bash
# hang.sh path/to/rille - tests workers that hang: one thread of a worker is frozen while the worker's heartbeats
# continue. The hung worker must be reported by name and counted as lost, and the job must continue with the same
# bits. Also tests `rille status`. TAP.
rille=$(realpath "$1")
. t/lib/processes.sh
cp t/lib/freeze.pl "$dir"
cd "$dir" || exit 2

# Trains, and recovers from losses. Argument "freezes": before step 6 freezes worker 1 in a product that takes far longer
# than the 20 ms after which the worker is frozen; "ends": does not recover.
cat >train.lua <<'LUA'
local placement = rille.placement("cpu", {0, 1})
rille.manual_seed(1)
local w = rille.randn({64, 64}, {placement = placement, sbp = "S(0)", requires_grad = true})
local x = rille.randn({64, 64}, {placement = placement, sbp = "B"})
local opt = rille.optim.SGD({w}, {lr = 1e-3})
local step = rille.graph(function()
  local loss = w:matmul(x):square():mean()
  loss:backward() opt:step() opt:zero_grad()
  return loss
end)
local last
local i, frozen = 1, arg[1] == nil
while i <= 7 do
  if i % 4 == 1 then rille.snapshot{i = i} end
  local good, result = pcall(function()
    if i == 6 and not frozen then
      frozen = true
      local large = rille.ones({1536, 1536}, {placement = placement, sbp = "S(0)"})
      local all = large:to_global{sbp = "B"}
      os.execute(("perl freeze.pl %d 20 >frozen 2>&1 & echo $! >>freezer"):format(rille.workers()[2].pid))
      repeat large:matmul(all):sum():item() until false
    end
    return step():item()
  end)
  if good then
    last, i = result, i + 1
  else
    io.stderr:write(result, "\n")
    assert(rille.is_lost(result))
    if arg[1] == "ends" then error(result, 0) end
    i = rille.recover().i
  end
end
print(("%a"):format(last))
LUA

sleep 60 & sleeper=$!
perl freeze.pl $sleeper >frozen 2>&1 & freezer=$!
await eval 'grep -q . frozen'
grep -q frozen frozen && can=1
kill $freezer $sleeper
wait 2>/dev/null
if [ -z "$can" ]; then
  skip "workers that hang" "ptrace is not allowed"
  finish
  exit
fi

# ---- a hung worker is lost ----

go launch -n 2 -d cpu:1 train.lua
want=$stdout
thaw() { kill $(cat freezer) && rm freezer; } # fails if the programs that froze threads have ended
# on TEXT: succeeds if both stderr and the file of the hang report contain the text
on() { says "$1" && grep -qF -e "$1" rille-hang-*.txt; }
for hosts in 1 2; do
  share $((hosts - 1)) || continue
  rm -f rille-hang-*.txt
  RILLE_HOSTS=$hosts go launch -n 2 -d cpu:1 --silence 30 --hang 2 train.lua freezes
  ok "a job does not wait for a debugger that keeps a lost worker" thaw
  is "$hosts hosts: a job with a worker that hangs ends with the numbers of a run without it" "$code $stdout" "0 $want"
  ok "its worker is named, on stderr and in a file" eval 'on "worker 1 (" && on "hangs: no progress for"'
  ok "and the error names it" says "stopped making progress"
  ok "the report is only written for the worker that hangs" eval '[ "$(grep -c " hangs: " err)" = 1 ]'
done

RILLE_HANG=2 go launch -n 2 -d cpu:1 --silence 30 train.lua ends
thaw
ok "a script that does not recover ends with the exit code of a loss" ends 3 "worker 1 (" "hangs: no progress for" "stopped making progress"

# Freezes a worker in a kernel. The report must name the worker's current act and its last acts. The current act must
# be one of the eight products, because they take nearly all of the step's time.
cat >kernel.lua <<'LUA'
local placement = rille.placement("cpu", {1})
local a = rille.rand({1536, 1536}, {placement = placement, sbp = "B"})
local step = rille.graph(function()
  local x = a:relu()
  for _ = 1, 8 do x = x:matmul(a) end
  return x:sum()
end)
step():item()
os.execute(("perl freeze.pl %d 50 >frozen 2>&1 & echo $! >>freezer"):format(rille.workers()[2].pid))
repeat step():item() until false
LUA
go launch -n 2 -d cpu:1 --silence 30 --hang 2 kernel.lua
thaw
ok "the report names the act and its source line" ends 3 "cpu:1 runs matmul" "(kernel.lua:5)" "while it ran matmul"
ok "and the acts before it" says "  before: "

# ---- long work is no hang ----

cat >long.lua <<'LUA'
local a = rille.rand({512, 512}, {placement = rille.placement("cpu", {1}), sbp = "B"})
local step = rille.graph(function(x)
  for _ = 1, 100 do x = x:matmul(a) / 512 end
  return x:sum()
end)
step(a):item()
LUA
go launch -n 2 -d cpu:1 --hang 0.2 long.lua
is "a step whose acts are shorter than --hang is not touched, however long it is" "$code $stderr" "0 "
go launch -n 2 -d cpu:1 --hang 0.2 -e 'os.execute("sleep 1") print((rille.ones{2} + 1):sum():item())'
is "a program that lets its workers wait is not touched" "$code $stdout" "0 4.0"
cat >paused.lua <<'LUA'
local x = rille.ones({64, 64}, {placement = rille.placement("cpu", {0, 1}), sbp = "S(0)"})
local step = rille.graph(function() return x:matmul(x):sum() end)
step():item()
local pid = rille.workers()[2].pid
os.execute(("kill -STOP %d; { sleep 3; kill -CONT %d; } &"):format(pid, pid))
print(step():item())
LUA
go launch -n 2 -d cpu:1 --silence 60 --hang 1 paused.lua
is "a worker that is paused as a whole does not hang, because it sends no heartbeats" "$code $stdout" "0 262144.0"
for bad in 0 0.1 x ""; do
  go launch -n 2 --hang "$bad" -e 1
  ok "--hang '$bad' is refused" ends 2 "--hang must be a number of seconds from 0.2 to 1000000, found '$bad'"
done

# ---- status ----

title=job$$.lua
cp kernel.lua $title
start() { timeout -k 5 $hang "$rille" launch -n 2 -d cpu:1 --silence 30 --hang 600 $title >out 2>err </dev/null & }
stands() {
  "$rille" status "$1" >status 2>&1 && grep -q "^$title, process $controller: running, epoch 1, run [0-9]*$" status &&
    grep -q "^worker 1 (.* busy, last progress [1-9][0-9.]* s ago, runs matmul ($title:5)$" status
}
rm -f frozen
start
job=$!
await eval 'grep -q frozen frozen'
controller=$(pgrep -P $job)
ok "in the middle of a run, status shows the act, its line, and the time since progress" await stands $title
ok "status finds a job by its process" stands "$controller"
start
other=$!
await eval '! "$rille" status $title >status 2>&1'
ok "of several jobs it lists the processes" grep -q "^  $controller  $title" status
kill $job $other
wait
thaw
go status $title
ok "without a job of that name it says so" ends 1 "status: no program called '$title' of this user runs on this host"
go status --all
ok "it has no options" ends 2 "status: expected no option, found --all"
finish
