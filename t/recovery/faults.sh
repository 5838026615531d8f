#!/bin/bash
# Tests faults of processes, and a controller that is killed at random moments. Errors must be clear, exit codes
# right, and no processes or files may be left. faults.sh path/to/rille; SEED= repeats the moments. TAP.
rille=$(realpath "$1")
. t/lib/processes.sh
cp t/lib/steps/small.lua "$dir"
kills=$(realpath bench/kills.lua)
cd "$dir" || exit 2

listens() { ss -Hltn 2>/dev/null | grep -q ":$port " || grep -qi ":$(printf %04X "$port") 0*:0000 0A" /proc/net/tcp; }

# ---- faults while workers join ----

port=$(free_port)
address=tcp://127.0.0.1:$port
timeout $hang "$rille" coordinator --bind $address --world 2 -e 'print(#rille.workers())' >world 2>&1 &
controller=$!
await listens
perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV' "$rille" worker --join $address --rank 0 -d cpu:1 2>first &
first=$!
# joined PID: succeeds if the worker has joined, since when it ignores SIGINT
joined() { [ $((0x$(sed -n 's/^SigIgn:\s*//p' /proc/$1/status) & 2)) = 2 ]; }
await joined $first
go worker --join $address --rank 0 -d cpu:1
ok "a second worker of a rank is refused" ends 1 "rank 0 is already taken by another worker"
go worker --join $address --rank 2 -d cpu:1
ok "a worker of a rank beyond the job is refused" ends 1 "rank 2 is out of range: the job has 2 workers"
go worker --join $address --rank 1 -d cpu:1
is "the expected worker joins" "$code" 0
wait $first $controller
ok "the controller reports the refused worker" grep -qF "rank 0 is already taken by another worker" world
is "the controller's program runs" "$(tail -1 world)" 2

# by_hand: starts a worker that waits for its coordinator. Until the worker has joined, an interrupt must end it;
# after that, the controller handles interrupts.
by_hand() { perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV' "$rille" worker --join "$address" -d cpu:1 --wait 60 2>hand & hand=$!; }
# threads: succeeds if the worker has started to wait for its coordinator, which its further threads show
threads() { [ "$(ls /proc/$hand/task | wc -l)" -gt 1 ]; }
port=$(free_port)
address=tcp://127.0.0.1:$port
by_hand
await threads
kill -INT $hand
wait $hand
is "an interrupt ends a worker that waits for its coordinator" $? 130
by_hand
timeout $hang "$rille" coordinator --bind $address --world 1 -e 'io.open("in", "w"):close()
  while not io.open("go") do os.execute("sleep 0.1") end
  print(rille.ones(3):sum():item())' >world 2>&1 &
controller=$!
await [ -e in ]
kill -INT $hand
touch go
wait $controller
is "an interrupt does not end a worker that has joined" "$? $(cat world) $(wait $hand; echo $?)" "0 3.0 0"

# ---- losses while the program does not use the workers ----

cat >idle.lua <<'LUA'
local x = rille.ones({3, 8}, {placement = rille.placement("cpu", {0, 1, 2}), sbp = "S(0)"})
rille.snapshot()
for _, rank in ipairs{3, 2} do os.execute("kill -9 " .. rille.workers()[rank].pid) end
while not io.open("used") do os.execute("sleep 0.1") end
local met, why = pcall(function() return x:sum():item() end)
print(met, why)
rille.recover()
os.execute("kill -9 " .. rille.workers()[1].pid)
print(pcall(function() while true do x:sum():item() end end))
os.execute("sleep 1.5")
LUA
rm -f used
timeout $hang "$rille" launch -n 3 -d cpu:1 --log idle.jsonl idle.lua >out 2>err </dev/null &
idle=$!
await eval '[ "$(grep -c "was killed by signal 9" err)" = 2 ]'
touch used
wait $idle
is "losses are reported on stderr while the program uses no worker, once for each" \
  "$? $(sed -E 's/\(.*, pid [0-9]+\)/(HOST)/' err | sort)" "0 rille: worker 1 (HOST) was killed by signal 9
rille: worker 2 (HOST) was killed by signal 9"
is "the log has these messages" "$(grep -c '"event":"message".*was killed by signal 9' idle.jsonl)" 2
ok "the program meets the loss at its next use" eval '[ "$(grep -c "^false.*was killed by signal 9" out)" = 2 ]'

# ---- keys of ranks ----

"$rille" keys --world 3 keys && "$rille" keys --world 3 others
is "a folder of keys has one for the coordinator and each rank, readable by the owner only" \
  "$(stat -c '%n %a' keys keys/* | tr '\n' ' ')" \
  "keys 700 keys/coordinator 600 keys/worker-0 600 keys/worker-1 600 keys/worker-2 600 "
go keys --world 3 keys
ok "existing keys are not overwritten" ends 1 "keys/coordinator: a key exists already"
port=$(free_port)
address=tcp://127.0.0.1:$port
timeout $hang "$rille" coordinator --bind $address --world 3 --key-file keys -e \
  'local P = rille.placement("cpu", {0, 1, 2}); print(rille.ones({3, 8}, {placement = P, sbp = "S(0)"}):sum():item())' >world 2>&1 &
controller=$!
await listens
go worker --join $address --rank 0 --key-file keys/worker-1 -d cpu:1
ok "another rank's key is refused" ends 1 "this is the key of rank 1, but this worker is rank 0"
go worker --join $address --rank 0 --key-file keys/coordinator -d cpu:1
ok "a worker with the coordinator's key is refused" ends 1 "this is the coordinator's key"
go worker --join $address --key-file keys -d cpu:1
ok "a folder of keys requires a rank" ends 1 "--rank R"
go worker --join $address --rank 0 --key-file others -d cpu:1
ok "a key of another job is refused" ends 1 "refuses this worker's key"
"$rille" worker --join $address --rank 0 --key-file keys -d cpu:1 &
# needs no --rank, because the rank follows from the key
"$rille" worker --join $address --key-file keys/worker-2 --host b -d cpu:1 &
go worker --join $address --rank 1 --key-file keys --host b -d cpu:1
is "workers with their own keys on two hosts form a cluster" "$code $(wait $controller; tail -1 world)" "0 24.0"
wait
go coordinator --bind $address --world 4 --key-file keys -e ''
ok "more workers than keys are refused" ends 2 "expected keys for at least 4 workers, found 3"
go coordinator --bind $address --world 1 --key-file keys/worker-0 -e ''
ok "a worker's key is refused for the coordinator" ends 2 "this is the key of rank 0; the coordinator needs its own"

# ---- lost workers whose processes still run ----

# Stops a worker of another host, which the controller cannot kill. The other workers of that host must kill the
# stopped worker before they continue, because it would write into their memory when it wakes up.
cat >stopped.lua <<'LUA'
local P = rille.placement("cpu", {0, 1, 2})
local x = rille.ones({3, 8}, {placement = P, sbp = "S(0)"})
rille.snapshot{1}
local pid = rille.workers()[3].pid
os.execute("kill -STOP " .. pid)
local good, err = pcall(function() for _ = 1, 1e6 do (x * 2):sum():item() end end)
assert(not good and rille.is_lost(err), err)
local note, file = rille.recover{workers = 2}, io.open(("/proc/%d/stat"):format(pid))
print(note[1], (x * 2):sum():item(), #rille.workers(), not file or (file:read("a") or ""):match("%) (%a)") ~= "T") -- ended, or about to
LUA
port=$(free_port)
address=tcp://127.0.0.1:$port
"$rille" worker --join $address --rank 0 -d cpu:1 2>/dev/null &
for r in 1 2; do "$rille" worker --join $address --rank $r --host b -d cpu:1 2>/dev/null & stopped=$!; done
go coordinator --bind $address --world 3 stopped.lua
kill -9 $stopped 2>/dev/null
wait
is "a stopped worker of another host is killed by its neighbour before the others continue" "$code $(cat out)" \
  "0 1	48.0	2	true"

# ---- time limits after which a process counts as lost; losses of many workers; losses during recovery ----

cat >paused.lua <<'LUA'
local P = rille.placement("cpu", {0, 1})
local x = rille.ones({2, 8}, {placement = P, sbp = "S(0)"})
local pid = rille.workers()[2].pid
print(x:sum():item())
os.execute(("kill -STOP %d; (sleep 2; kill -CONT %d) >/dev/null 2>&1 &"):format(pid, pid))
print((x * 2):sum():item(), #rille.workers())
LUA
go launch --silence 60 -n 2 -d cpu:1 paused.lua
is "a worker that pauses for less than --silence is not lost" "$code $(tr '\n' ' ' <out)" "0 16.0 32.0	2 "
RILLE_SILENCE=60 go launch -n 2 -d cpu:1 paused.lua
is "RILLE_SILENCE sets the same time" "$code $(tr '\n' ' ' <out)" "0 16.0 32.0	2 "
for given in "--silence x" "--silence 0" "--link -1" "--orphan 1e9" "--orphan 2s"; do
  go launch $given -n 2 -d cpu:1 -e 'print(1)'
  ok "$given is refused" ends 2 "${given% *} must be a number of seconds from 0.2 to 1000000, found '${given#* }'"
done
RILLE_LINK=2 go launch --orphan 3.5 -n 2 -d cpu:1 -e 'io.write(io.open("/proc/" .. rille.workers()[1].pid .. "/cmdline"):read("a"))'
ok "started workers get --link and --orphan" grep -qa -- "--link.2.--orphan.3.5" out

# Runs many workers on two hosts. On each host one worker, rank 0 or rank 9, relays the heartbeats of the others.
cat >many.lua <<'LUA'
local P = rille.placement("cpu", {0, 9, 17})
local x = rille.ones({3, 8}, {placement = P, sbp = "S(0)"})
rille.snapshot{1}
local function stop(rank)
  os.execute("sleep 1; kill -STOP " .. rille.workers()[rank + 1].pid)
  local good, err = pcall(function() while true do (x * 2):sum():item(); os.execute("sleep 0.1") end end)
  assert(not good and rille.is_lost(err) and err:find("stopped responding"), err)
  local lost = {}
  for _, w in ipairs(rille.workers()) do if w.state == "lost" then lost[#lost + 1] = w.rank end end
  rille.recover()
  return table.concat(lost, " ")
end
print(stop(17), stop(9), stop(0), (x * 2):sum():item(), #rille.workers())
LUA
RILLE_HOSTS=2 go launch -n 18 -d cpu:1 many.lua
is "of many workers only the stopped one is lost, relay or not" "$code $(cat out)" "0 17	9	0	48.0	18"

# Loses every host once. Some megabytes of a snapshot are on each host, and are copied to the next host. After a loss,
# workers send this copy back.
cat >spare.lua <<'LUA'
local P = rille.placement("cpu", {0, 1, 2})
local x = rille.rand({3 * 1031, 771}, {placement = P, sbp = "S(0)"})
local function all() return x:sum():item() .. x[{{1000, 1100}}]:sum():item() .. x[{{2500, 2600}}]:sum():item() end
local want = all()
rille.snapshot{1}
for _, k in ipairs{2, 3, 1} do
  for _ = 1, 20 do (x[{{0, 1}}] * 2):sum():item() end -- the snapshot is copied meanwhile
  os.execute(("sleep 1; kill -9 %d"):format(rille.workers()[k].pid))
  local good, err = pcall(function() while true do x:sum():item() end end)
  assert(not good and rille.is_lost(err), err)
  rille.recover()
  io.write(tostring(all() == want), " ")
  rille.snapshot{1}
end
print(#rille.workers())
LUA
RILLE_HOSTS=3 go launch -n 3 -d cpu:1 spare.lua
is "the values of any lost host are restored from its neighbour" "$code $(cat out)" "0 true true true 3"

# Loses two workers. The second is stopped during the recovery from the first loss. The coordinator must notice that
# its heartbeats are missing.
cat >twice.lua <<'LUA'
local P = rille.placement("cpu", {0, 1, 2, 3})
local x = rille.rand({4 * 31, 77}, {placement = P, sbp = "S(0)"})
local want = x:sum():item()
rille.snapshot{1}
for _, rank in ipairs{2, 0} do
  local first, second = rille.workers()[rank + 1].pid, rille.workers()[rank + 2].pid
  os.execute("kill -9 " .. first)
  local good, err = pcall(function() while true do (x * 2):sum():item() end end)
  assert(not good and rille.is_lost(err) and err:find("worker " .. rank), err)
  os.execute("kill -STOP " .. second)
  io.write(rille.recover()[1], " ", tostring(x:sum():item() == want), " ")
  for _, w in ipairs(rille.workers()) do assert(w.pid ~= first and w.pid ~= second) end
end
LUA
for hosts in 1 2; do
  share || continue
  RILLE_HOSTS=$hosts go launch -n 4 -d cpu:1 twice.lua
  is "on $hosts hosts a worker lost during a recovery is replaced, too" "$code $(cat out)" "0 1 true 1 true "
done

# Loses a third worker while workers of two hosts are not connected to each other. Those two connect only after the
# third worker is replaced, and abandon a copy of a snapshot that one sends to the other. The abandoned copy must not
# block reads.
cat >unmet.lua <<'LUA'
rille.snapshot{1}
local x = rille.ones({4}, {placement = rille.placement("cpu", {2})})
x:sum():item()
os.execute("kill -9 " .. rille.workers()[1].pid)
repeat os.execute("sleep 0.05") until rille.workers()[1].state == "lost"
pcall(rille.snapshot, {2})
local value = x:totable()[4]
rille.recover()
print(value, x:sum():item(), #rille.workers())
LUA
RILLE_HOSTS=4 go launch -n 4 -d cpu:1 unmet.lua
is "a snapshot copy between workers without a connection is abandoned when a third is lost" "$code $(cat out)" "0 1.0	4.0	4"

# Interrupts a recovery that waits for a worker started by hand. The next call must continue the recovery.
cat >waits.lua <<'LUA'
io.stdout:setvbuf "no"
local P = rille.placement("cpu", {0, 1})
local x = rille.rand({62, 77}, {placement = P, sbp = "S(0)"})
local want = x:sum():item()
rille.snapshot{1}
os.execute("kill -9 " .. rille.workers()[2].pid)
assert(not pcall(function() while true do (x * 2):sum():item() end end))
local good, err = pcall(function()
  io.open("waits", "w"):close()
  rille.recover()
end)
print(good, tostring(err):find "interrupted" ~= nil)
print(not pcall(function() return (x * 2):sum():item() end))
os.execute(arg[1] .. " &")
print(rille.recover()[1], x:sum():item() == want)
LUA
port=$(free_port)
address=tcp://127.0.0.1:$port
for r in 0 1; do "$rille" worker --join $address --rank $r -d cpu:1 2>/dev/null & done
timeout --foreground -k 5 $hang "$rille" coordinator --bind $address --world 2 waits.lua "$rille worker --join $address --rank 1 -d cpu:1" >out 2>err &
waits=$! # with --foreground, timeout passes one signal, to the controller only
await [ -e waits ]
kill -INT $waits
wait $waits
is "an interrupt ends waiting for a worker, and the next call continues the recovery" "$? $(cat out)" "0 false	true
true
1	true"
wait

# Loses one of six hosts. Its shards must be restored from the next host, and replicated values from any host.
cat >mend.lua <<'LUA'
local P = rille.placement("cpu", {0, 1, 2, 3, 4, 5})
local b = rille.randn({300, 100}, {placement = P, sbp = "B"})
local x = rille.randn({72, 8}, {placement = P, sbp = "S(0)"})
local y = x:to_global{placement = P, sbp = "S(1)"} -- all hosts communicate with each other
local want = {b:sum():item(), x:sum():item(), y:sum():item()}
rille.snapshot{1}
os.execute("kill -9 " .. rille.workers()[4].pid)
assert(not pcall(function() for _ = 1, 1e5 do (x * 2):sum():item() end end))
rille.recover()
print(b:to_global{placement = rille.placement("cpu", {3}), sbp = "B"}:sum():item() == want[1], x:sum():item() == want[2],
      x:to_global{placement = P, sbp = "S(1)"}:sum():item() == want[3])
LUA
RILLE_HOSTS=6 go launch -n 6 -d cpu:1 mend.lua
is "the lost one of six hosts is restored with all its values" "$code $(cat out)" "0 true	true	true"

# Kills the workers of two hosts one after another. Late messages of a killed worker may arrive after those of its
# replacement.
RILLE_HOSTS=2 go launch -n 4 -d cpu:1 "$kills" 12
is "workers of two hosts are killed one after another, and every loss value stays right" "$code $(head -1 out)" "0 12 kills, 0 wrong losses"

# ---- unsupported devices ----

go launch -n 2 -d cpu:2 -e 'rille.ones({4}, {placement = rille.placement("cpu", {3, 4}), sbp = "S(0)"})'
ok "devices that the workers do not have are an error with its line" ends 1 "no device cpu:4: this session has cpu:0 to cpu:3"
go launch -n 2 -d cpu:0 -e ''
ok "cpu:0 is a usage error" ends 2 'the number of devices of "cpu"'
for devices in gpu:1 meta:2 cpu:1,meta:1 nvidia:1; do
  why="devices: workers can have devices of kind cpu and cuda, not meta"
  [[ $devices = *meta* ]] || why="unknown device kind"
  go launch -n 2 -d $devices -e 'print(1)'
  ok "workers with devices $devices are not started" ends 2 "$why"
  go worker --join $address -d $devices
  ok "a worker with devices $devices cannot join" ends 2 "$why"
done
(ulimit -S -n 24; go launch -n 2 -d cpu:1 -e 'print(#rille.workers())'; exit $code)
is "a soft limit of open files that is too low for the job is raised" "$? $(cat out)" "0 2"
(ulimit -n 24; go launch -n 2 -d cpu:1 -e ''; exit $code)
code=$?
ok "a hard limit of open files that is too low for the job is reported" ends 2 \
  "rille: expected a limit of at least 144 open files, found 24; raise the hard limit (ulimit -Hn)"
RILLE_BUS=sim:3 go launch -n 2 -d cpu:1 -e ''
ok "workers are refused on the simulator" ends 2 "the simulator (RILLE_BUS=sim) is a single process"

# ---- clocks that differ between hosts ----

cat >clock.lua <<'LUA'
local P = rille.placement("cpu", {0, 1})
local x = rille.ones({4, 8}, {placement = P, sbp = "S(0)"})
local step = rille.graph(function(a) return (a * 2):to_global{placement = P, sbp = "B"}:sum() end)
for _ = 1, 3 do assert(step(x):item() == 64) end
step:trace("trace.json")
step(x)
local n = {0, 0}
for _, e in ipairs(require"rille.json".decode(io.open("trace.json"):read("a")).traceEvents) do
  if e.ph == "X" then
    n[e.tid + 1] = n[e.tid + 1] + 1
    assert(e.ts > -60e6 and e.ts < 60e6, "a clock of another host")
  end
end
rille.snapshot{1}
x:copy_(x * 2)
rille.snapshot{2}
print(rille.recover()[1], n[1] > 0 and n[2] > 0, rille.workers()[2].heartbeat < 5)
LUA
if unshare -T --monotonic 864000 true 2>/dev/null; then
  port=$(free_port)
  address=tcp://127.0.0.1:$port
  "$rille" worker --join $address --rank 0 -d cpu:1 &
  unshare -f -T --monotonic 864000 "$rille" worker --join $address --rank 1 --host later -d cpu:1 &
  go coordinator --bind $address --world 2 clock.lua
  is "a worker whose clock is ten days ahead works like the others" "$code $(cat out)" "0 2	true	true"
  wait
else
  skip "a worker whose clock is ten days ahead works like the others" "no time namespaces here"
fi

# ---- memory that runs out ----

cat >memory.lua <<'LUA'
local P = rille.placement("cpu", {0, 1})
local x = rille.ones({4}, {placement = P, sbp = "S(0)"})
print(pcall(function() return rille.zeros({1 << 40}, {placement = P, sbp = "S(0)"}):sum():item() end))
print(x:sum():item(), #rille.workers())
LUA
go launch -n 2 -d cpu:1 memory.lua
ok "too large an allocation is an error with its line" grep -q "^false.*memory.lua:3: .*out of memory" out
ok "no worker ends after a failed allocation" grep -q "^4.0	2" out
cat >two.lua <<'LUA'
print(rille.ones({4}, {placement = rille.placement("cpu", {0, 1}), sbp = "S(0)"}):sum():item())
LUA
# limits the size of files to 16 KiB, in which the message rings of a host have no place
limited() { (trap '' XFSZ; ulimit -f 16; "$@"); }
limited timeout $hang "$rille" launch -n 2 -d cpu:1 two.lua 2>err
code=$?
ok "a controller that cannot create shared memory reports this" ends 2 "shared memory of " "bytes: File too large" "(ulimit -f)"
port=$(free_port)
address=tcp://127.0.0.1:$port
limited "$rille" worker --join $address --rank 1 --host b -d cpu:1 2>/dev/null &
"$rille" worker --join $address --rank 0 -d cpu:1 2>/dev/null &
go coordinator --bind $address --world 2 two.lua
ok "a worker that cannot create shared memory is lost with this reason" ends 3 "worker 1 (b, pid " "shared memory of " "bytes: File too large"
wait
if unshare -m mount -t tmpfs none /proc 2>/dev/null; then
  for r in 0 1; do unshare -m bash -c 'mount -t tmpfs none /proc; exec "$@"' - "$rille" worker --join $address --rank $r -d cpu:1 2>/dev/null & done
  go coordinator --bind $address --world 2 two.lua
  ok "a worker that cannot open its host's shared memory is lost with this reason" ends 3 "shared memory /proc/" ": No such file"
  wait
else
  skip "a worker that cannot open its host's shared memory is lost with this reason" "no mounts here"
fi
"$rille" keys >own
install -m 600 own theirs
if [ "$(id -u)" = 0 ] && chown 65534 theirs && chmod 755 . && setpriv --reuid 65534 --clear-groups "$rille" --version >/dev/null 2>&1; then
  "$rille" worker --join $address --rank 0 --key-file own -d cpu:1 &
  setpriv --reuid 65534 --clear-groups "$rille" worker --join $address --rank 1 --key-file theirs -d cpu:1 &
  go coordinator --bind $address --world 2 --key-file own two.lua
  is "a worker of another user has shared memory of its own" "$code $(cat out)" "0 4.0"
  wait
else
  skip "a worker of another user has shared memory of its own" "only root can try"
fi
if unshare -m bash -c 'mount -t tmpfs -o size=64k none /dev/shm && head -c 64k /dev/zero >/dev/shm/full; exit 0' 2>/dev/null; then
  unshare -m bash -c 'mount -t tmpfs -o size=64k none /dev/shm; head -c 64k /dev/zero >/dev/shm/full; exec "$@"' - \
    timeout $hang "$rille" launch -n 2 -d cpu:1 memory.lua >out 2>err
  ok "a full /dev/shm does no harm" grep -q "^4.0	2" out
else
  skip "a full /dev/shm does no harm" "no mounts here"
fi

# ---- disks that are full ----

cat >disk.lua <<'LUA'
local net = rille.nn.Linear(4, 4)
rille.checkpoint.save("full/c", {model = net, step = 1})
local before = net.weight:sum():item()
local function files() return io.popen("ls full/c"):read("a") end
local had = files()
io.open("full/rest", "w"):write(("x"):rep(1 << 20)) -- fills the disk
local wide = rille.nn.Linear(400, 400)
print(pcall(rille.checkpoint.save, "full/c", {model = wide, step = 2}))
print(rille.checkpoint.load("full/c", {model = net}), net.weight:sum():item() == before, files() == had)
LUA
mkdir full
if unshare -m mount -t tmpfs -o size=64k none full 2>/dev/null; then
  timeout $hang unshare -m bash -c 'mount -t tmpfs -o size=64k none full; exec "$@"' - "$rille" launch -n 2 -d cpu:1 disk.lua >out 2>err
  ok "a full disk is reported" grep -q "^false.*full/c/.*No space left on device" out
  ok "the previous checkpoint is complete after a full disk" grep -q "^1	true" out
  timeout $hang unshare -m bash -c 'mount -t tmpfs -o size=64k none full; exec "$@"' - \
    "$rille" launch -n 2 -d cpu:1 --root "$dir/full" disk.lua >out 2>err
  ok "a full disk for a worker's shard is reported with the worker" \
    grep -q "^false.*worker [01] (.*): .*\.shard: cannot be written: No space left on device" out
  ok "the previous checkpoint is complete, and no file of the failed one is left" grep -q "^1	true	true$" out
else
  skip "a full disk is reported" "no mounts here"
fi

# ---- killed controllers ----

# Kills a controller at random moments: while it starts workers, sends programs, runs, takes snapshots, or ends.
cat >work.lua <<'LUA'
local net, opt, step, batch = dofile "small.lua"
for i = 1, 400 do
  step(batch()):item()
  if i % 5 == 0 then rille.snapshot{i} end
end
LUA
seed=$((${SEED:-$$} % 32768)) RANDOM=$seed times=20
[ -n "${RILLE_LONG:-}" ] && times=200
echo "# SEED=$seed"
left=0 ended=0
for ((k = 0; k < times; k++)); do
  share $k || continue
  job=kill$$-$k
  RILLE_HOSTS=$((1 + k % 2)) "$rille" launch -n 4 -d cpu:1 work.lua $job >/dev/null 2>err &
  controller=$!
  sleep "0.$(printf %03d $((RANDOM % 600)))"
  workers=$(pgrep -P $controller rille)
  kill -9 $controller 2>/dev/null && ended=$((ended + 1))
  wait $controller 2>/dev/null
  [ -z "$workers" ] || await are_gone $workers || left=$((left + 1))
done
ok "$ended controllers killed at random moments left no worker" [ $left = 0 ]
# starts one more controller, which must delete the files of controllers that were killed before they had a worker
go launch -n 1 -d cpu:1 -e ''
ok "no socket and no file is left" [ -z "$(find run tmp -mindepth 1)" ]
ok "no shared memory is left" eval '! ls /dev/shm 2>/dev/null | grep -i rille'
finish
