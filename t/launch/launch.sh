#!/bin/bash
# Tests worker processes: they give the same bits as one process, also after losses, and leave no processes or files.
# (t/cluster/sim.c tests more cases of the cluster protocol without processes.)
rille=$(realpath "$1")
. t/lib/processes.sh
root=$PWD

# ---- the bits of one process ----

digits() { # digits LAYOUT ARGUMENTS...: prints the losses of 5 steps in hex
  local layout=$1
  shift
  rm -f "$dir/log"
  go "$@" "$root/examples/digits.lua" --steps 5 --log "$dir/log" --layout "$layout"
  cat "$dir/log"
}
cd "$root" || exit 1
# Columns: layout of examples/digits.lua, number of workers, number of hosts, and how the workers communicate:
#   plain  tcp
#   key    encrypted tcp
#   sums   tcp, with cost parameters for which reductions of any size are made host by host
clusters="single 4 4 key
single 1 1 key
dp 2 2 sums
dp 1 1 plain
tp 1 1 key
tp 2 1 key
dp-tp 4 4 plain
dp-tp 4 2 key
pp 4 1 key
pp 1 1 key
pp-tp 2 2 plain
pp-tp 4 4 sums"
# prints the pairs of values that no line of $clusters has, for: data, tensor, stages, workers, hosts, how
missing_pairs() {
  awk 'function pairs(layout, w, h, how, into,   v, i, k) {
         v[1] = "data=" (layout ~ /dp/); v[2] = "tensor=" (layout ~ /tp/); v[3] = "stages=" (layout ~ /pp/)
         v[4] = "workers=" w; v[5] = "hosts=" h; v[6] = "how=" how
         for (i = 1; i < 6; i++) for (k = i + 1; k <= 6; k++) into[v[i] " " v[k]] = 1
       }
       { pairs($1, $2, $3, $4, covered) }
       END {
         split("single dp tp dp-tp pp pp-tp", layouts); split("plain sums key", hows)
         for (l in layouts) for (w = 1; w <= 4; w *= 2) for (h = 1; h <= w; h *= 2) for (x in hows)
           if (hows[x] != "sums" || (h > 1 && layouts[l] ~ /dp|tp/)) pairs(layouts[l], w, h, hows[x], possible)
         for (p in possible) if (!(p in covered)) print p
       }'
}
is "the table covers all pairs of layout, workers, hosts and transport" "$(missing_pairs <<<"$clusters")" ""
ok "the check finds missing pairs in a shorter table" [ -n "$(head -n 11 <<<"$clusters" | missing_pairs)" ]
"$rille" keys >"$dir/key"
printf 'wire_ns 0\nwire_ns_per_byte 1\n' >"$dir/cost"
while read -r layout workers hosts how; do
  share || continue
  want=$(digits "$layout" -d cpu:4) more=() cost=
  [ "$how" = key ] && more=(--bind "tcp://127.0.0.1:$(free_port)" --key-file "$dir/key")
  [ "$how" = sums ] && cost=$dir/cost
  got=$(RILLE_COST=$cost RILLE_HOSTS=$hosts digits "$layout" launch -n "$workers" -d "cpu:$((4 / workers))" "${more[@]}")
  is "$layout on $workers workers of $hosts hosts ($how) gives the bits of one process" "$got" "${want:-nothing}"
done <<<"$clusters"
rm "$dir/key"
cd "$dir" || exit 1
cat >handed.lua <<'LUA'
local ranks = {}
for r = 0, 15 do ranks[#ranks + 1] = r end
local P = rille.placement("cpu", ranks)
rille.manual_seed(3)
local step = rille.graph(function(a, b) return a:matmul(b):to_global{placement = P, sbp = "B"} end)
for _, dtype in ipairs{"bf16", "f32"} do
  local a = rille.randn({67, 512}, {placement = P, sbp = "S(1)", dtype = dtype})
  local b = rille.randn({512, 31}, {placement = P, sbp = "S(0)", dtype = dtype})
  local y = step(a, b)
  print(dtype, ("%a %a %a"):format(y:sum():item(), y[{{0, 1}}]:sum():item(), (y * y):sum():item()))
end
local e, bytes = step:explain(), 0
for _, d in ipairs(step:stats().devices) do bytes = bytes + d.bytes_in end
assert(e.bytes == bytes, ("explain tells of %d bytes, %d came"):format(e.bytes, bytes))
for _, text in ipairs{tostring(step:plan()), tostring(e)} do
  io.stderr:write(" ", text:match("in (%d segments[^,]*)") or "")
end
io.stderr:write("\n")
LUA
go -d cpu:16 handed.lua
want=$stdout
for shape in "2 8 2 segments" "4 4 4 segments and back"; do
  share || continue
  read -r hosts devices legs <<<"$shape"
  RILLE_COST=$dir/cost RILLE_HOSTS=$hosts go launch -n "$hosts" -d "cpu:$devices" handed.lua
  is "a sum of 16 devices is reduced hierarchically in $legs with the same bits; plan and explain show this" "$stdout${stderr##*]}" \
    "${want:-nothing} $legs $legs"
done

cat >stats.lua <<'LUA'
local P = rille.placement("cpu", {0, 1})
local w = rille.ones({8, 8}, {placement = P, sbp = "S(1)"})
local step = rille.graph(function(x) return x:matmul(w):to_global{placement = P, sbp = "B"} end)
local x = rille.ones({4, 8}, {placement = P, sbp = "B"})
for _ = 1, 3 do step(x) end
local s = step:stats()
step:trace("trace.json")
step(x)
print(s.devices[1].bytes_in, s.devices[1].busy > 0, s.step_time > 0, io.open("trace.json"):read("a"):find("matmul") ~= nil)
LUA
go -d cpu:2 stats.lua
one=$stdout
go launch -n 2 -d cpu:1 stats.lua
ok "a step's statistics and trace cover the workers" [ "$code $stdout" = "0 $one" ]

printf 'x = rille.ones({8, 8}, {placement = rille.placement("cpu", {0, 1, 2, 3}), sbp = "S(0)"})\n:top (x * 2):sum():item()\n:top\n' >top.in
RILLE_HOSTS=2 timeout $hang "$rille" launch -n 4 -d cpu:1 -i -e '' <top.in >out 2>err
is ":top shows the workers of all hosts, for a line and for the session" \
  "$(grep -cE 'worker [01] .* busy +[0-9]+ %' out) $(grep -cE 'worker [23] +host1 +ready .* busy +[0-9]+ %' out)" "4 4"

# Shows devices, actors, plan partitions and times of acts for all hosts of a step.
cat >hosts.lua <<'LUA'
local P = rille.placement("cpu", {0, 1, 2, 3})
local w = rille.ones({8, 8}, {placement = P, sbp = "S(1)"})
local step = rille.graph(function(x) return x:matmul(w):to_global{placement = P, sbp = "B"} end)
local x = rille.ones({4, 8}, {placement = P, sbp = "S(0)"})
for _ = 1, 3 do step(x) end
step:trace("trace.json")
step(x)
local s, acts, count = step:stats(), {0, 0, 0, 0}, 0
for _, d in ipairs(s.devices) do io.write(d.device, " ", d.bytes_in, " ", tostring(d.busy > 0), "; ") end
local trace = require"rille.json".decode(io.open("trace.json"):read("a"))
for _, e in ipairs(trace.traceEvents) do
  if e.ph == "X" then
    acts[e.tid + 1] = acts[e.tid + 1] + 1
    assert(e.ts >= -1e6 and e.ts + e.dur < 60e6, "a time that is none of the run's")
  end
end
for _, a in ipairs(step:actors()) do
  assert(a.state == "done" and a.begun == a.acts and a.line == "hosts.lua:3", a.name)
  acts[tonumber(a.device:match("%d"))+ 1] = acts[tonumber(a.device:match("%d")) + 1] - 1
end
for i = 1, 4 do count = count + math.abs(acts[i]) end
local chart = step:chart()
for _, run in ipairs{chart.planned, chart.measured} do
  local seen = {}
  for _, span in ipairs(run.spans) do seen[span.device] = true end
  assert(#run.devices == 4 and #seen == 4, "a chart of other devices")
end
local _, parts = tostring(step:plan()):gsub("plan: ", "")
print(count, s.hosts, parts, trace.otherData.hosts, require"rille.show.actors"(step:actors(), 100):match("actors(.*)\n"))
LUA
for hosts in 1 2 4; do
  share || continue
  RILLE_HOSTS=$hosts go launch -n 4 -d cpu:1 hosts.lua
  several=$([ $hosts = 1 ] || echo " on $hosts hosts")
  is "stats, trace, actors, chart and plan show all hosts of a step ($hosts)" "$code $stdout" \
    "0 cpu:0 192 true; cpu:1 192 true; cpu:2 192 true; cpu:3 192 true; 0	$hosts	$hosts	$hosts	$several"
done
# Counts the stages of a step. The program has four stages. On several hosts, receive tasks add devices to a stage,
# but no stages.
cat >stages.lua <<'LUA'
local P, W = {}, {}
for i = 1, 4 do P[i] = rille.placement("cpu", {i - 1}) end
for i = 1, 4 do W[i] = rille.ones({8, 8}, {placement = P[i], requires_grad = true}) end
local step = rille.graph(function(x)
  for i = 1, 4 do x = x:to_global{placement = P[i], sbp = "B"}:matmul(W[i]):tanh() end
  local loss = x:sum()
  loss:backward()
  return loss
end, {micro_batches = 8, schedule = "1f1b"})
step(rille.ones({16, 8}, {placement = P[1]}))
step:show()
LUA
for hosts in 1 2 4; do
  share || continue
  RILLE_HOSTS=$hosts go launch -n 4 -d cpu:1 stages.lua
  is "a schedule's formula counts the devices that compute stages ($hosts)" "$code $(tr -s '\n ' ' ' <"$dir/out" | grep -o 'in theory at most [0-9.]* %')" \
    "0 in theory at most 27.3 %"
done
RILLE_HOSTS=2 go launch -n 2 -d cpu:1 --doctor
ok ":doctor describes the workers of all hosts" grep -qE "^ *worker 1 +host1, pid [0-9]+, cpu:1, [0-9]+ cores, [0-9.]+ GiB, --link 3, --orphan 4.5, ready" "$dir/out"

# ---- errors of remote kernels, values on other hosts, errors of recover and snapshot ----

cat >errors.lua <<'LUA'
local P = rille.placement("cpu", {1})
local w = rille.ones({4, 2}, {placement = P})
local ids = rille.tensor({9}, {dtype = "i64", placement = P})
print(pcall(function() return rille.embedding(ids, w):sum():item() end))
print(pcall(rille.zeros, {1 << 40}, {placement = P}))
print(pcall(function() return rille.zeros({1 << 40}, {placement = P}):sum():item() end))
print(w:sum():item())
LUA
for hosts in 1 2; do
  share || continue
  RILLE_HOSTS=$hosts go launch -n 2 -d cpu:1 errors.lua
  ok "after errors on a worker, also of memory, every rank is alive ($hosts hosts)" grep -q '^8' "$dir/out"
  ok "an error on a worker names operator and line" grep -q 'errors.lua:4: .*embedding' "$dir/out"
  ok "too large an allocation is an error" grep -q 'needs 4.4 TB' "$dir/out"
done

# Writes and reads values of every size on other hosts: replicated values, sharded values, and elements by index.
# Results must equal those of one process.
cat >values.lua <<'LUA'
local all = {0, 1, 2, 3}
local function same(t, sbp)
  local x = rille.rand({1031, 771}, {placement = rille.placement("cpu", all), sbp = sbp})
  print(sbp, x:sum():item(), x[{{1000, 1031}, {770, 771}}]:sum():item(), x:to_global{placement = rille.placement("cpu", {3})}:max():item())
end
rille.manual_seed(7)
for _, sbp in ipairs{"B", "S(0)", "S(1)"} do same({}, sbp) end
local list = {}
for i = 1, 5000 do list[i] = i % 97 end
local y = rille.tensor(list, {dtype = "i64", placement = rille.placement("cpu", all), sbp = "S(0)"})
y:copy_(y + 1)
print(y:sum():item(), y[4999]:item())
rille.save("values.safetensors", {y = y})
print(rille.load("values.safetensors", {placement = rille.placement("cpu", {2, 1}), sbp = "S(0)"}).y:sum():item())
LUA
go -d cpu:4 values.lua
want=$stdout
RILLE_HOSTS=2 go launch -n 4 -d cpu:1 values.lua
ok "values are written and read on other hosts" [ -n "$want" -a "$code $stdout" = "0 $want" ]

cat >look.lua <<'LUA'
local P = rille.placement("cpu", {0, 1})
local x = rille.ones({4, 2}, {placement = P, sbp = "S(0)"})
local step = rille.graph(function(ids, x) return rille.embedding(ids, x:relu()):sum() end)
local function states()
  local text = {}
  for _, a in ipairs(step:actors()) do text[#text + 1] = a.name .. " " .. a.begun .. " " .. a.state end
  return table.concat(text, "; ")
end
for _, id in ipairs{1, 9} do
  print(id, pcall(function() return step(rille.tensor({id}, {dtype = "i64", placement = P}), x):item() end))
  print(id, states())
end
LUA
for hosts in 1 2; do
  share || continue
  RILLE_HOSTS=$hosts go launch -n 2 -d cpu:1 look.lua
  ok "the actors of workers are done after a run ($hosts hosts)" grep -q '^1.relu 1 done;.*sum 1 done' "$dir/out"
  ok "the actors of workers show which acts are missing after a failure" grep -qE "^9.relu [01] .*sum 0 (stopped|waits for)" "$dir/out"
done
echo 'rille.snapshot() print(pcall(rille.recover, {workers = 9}))' >fewer.lua
go launch -n 2 -d cpu:1 fewer.lua
ok "recover with a number of workers, but without a loss, is refused" grep -q "no worker is lost" "$dir/out"
go launch -n 2 -d cpu:1 -e 'rille.recover()'
ok "recover without a snapshot is refused" ends 1 "no snapshot"
go launch -n 2 -d cpu:1 -e 'rille.snapshot{print}'
ok "a note with a function is refused" ends 1 "must be a number, a string, a boolean or a table of them"

# ---- losses ----

# Runs twelve steps. Loses a worker before each step whose number is an argument. Prints the last loss of each step.
cp "$root/t/lib/steps/small.lua" .
cat >train.lua <<'LUA'
local net, opt, step, batch = dofile "small.lua"
local lr = rille.optim.cosine{lr = 0.1, min_lr = 0.01, warmup = 3, steps = 12}
local crash, fewer, seen, i = {}, arg[1] == "fewer", {}, 0
for k = 2, #arg do crash[tonumber(arg[k])] = true end
rille.snapshot{step = 0}
while i < 12 do
  local good, err = pcall(function()
    if crash[i] then
      crash[i] = nil
      local w = rille.workers()
      os.execute(("kill -%s %d"):format(i % 2 == 0 and "KILL" or "STOP", w[#w].pid))
    end
    opt.lr = lr(i)
    local loss = step(batch()):item()
    i = i + 1
    seen[i] = ("%a"):format(loss)
    if i % 3 == 0 then rille.snapshot{step = i} end
  end)
  if not good then
    assert(rille.is_lost(err), err)
    local w = rille.workers()
    i = rille.recover(fewer and {workers = #w - 1} or nil).step
  end
end
for k = 1, 12 do print(seen[k]) end
print(net.weight:sum():item(), opt.steps, #rille.workers())
LUA
go -d cpu:4 train.lua same
want=$(head -n 12 <<<"$stdout") tail=$(tail -n 1 <<<"$stdout" | cut -f 1,2)
share && go launch -n 4 -d cpu:1 train.lua same 2 5 8 &&
  ok "three lost workers, killed or silent, are replaced with the same bits" \
  [ "$code $(head -n 12 <<<"$stdout")" = "0 $want" -a "$(tail -n 1 <<<"$stdout")" = "$tail	4" ]
share && go launch -n 4 -d cpu:1 train.lua fewer 2 4 8 &&
  ok "after three lost workers one worker runs the devices of four with the same bits" \
  [ "$code $(head -n 12 <<<"$stdout")" = "0 $want" -a "$(tail -n 1 <<<"$stdout")" = "$tail	1" ]

share && RILLE_HOSTS=2 go launch -n 4 -d cpu:1 train.lua same 2 5 8 &&
  ok "three lost workers of a host with a second worker are replaced with the same bits" \
  [ "$code $(head -n 12 <<<"$stdout")" = "0 $want" -a "$(tail -n 1 <<<"$stdout")" = "$tail	4" ]

share && RILLE_HOSTS=2 go launch -n 2 -d cpu:2 train.lua same 2 5 8 &&
  ok "a host lost three times is restored from the other host's snapshot copy with the same bits" \
  [ "$code $(head -n 12 <<<"$stdout")" = "0 $want" -a "$(tail -n 1 <<<"$stdout")" = "$tail	2" ]

cat >host.lua <<'LUA'
local P = rille.placement("cpu", {0, 1})
local kinds = {}
for _, sbp in ipairs{"S(0)", "B", "P"} do kinds[#kinds + 1] = rille.ones({4}, {placement = P, sbp = sbp}) end
local result = kinds[1] * 2
result:sum():item()
rille.snapshot()
os.execute("kill -9 " .. rille.workers()[2].pid)
print(pcall(function() for _ = 1, 1e5 do (kinds[1] * 2):sum():item() end end))
rille.recover()
for _, x in ipairs(kinds) do io.write(x:sum():item(), " ") end
print(#rille.workers())
print(pcall(function() return result:sum():item() end))
LUA
RILLE_HOSTS=2 go launch -n 2 -d cpu:1 host.lua
ok "the error names the lost host and worker" grep -q "^false	.*host.lua:8: worker 1 (host1, pid [0-9]*) was killed by signal 9" "$dir/out"
ok "variables are restored in every layout" grep -q "^4 4 4 2$" "$dir/out"
ok "reading a value that no snapshot had is an error" grep -q "^false.* lost$" "$dir/out"

# Copies a snapshot to the other host while the program continues. If a host is lost during the copy, recovery must
# use the previous snapshot.
cat >copied.lua <<'LUA'
local P = rille.placement("cpu", {0, 1})
math.randomseed(tonumber(arg[1]))
local x = rille.zeros({2, 1 << 22}, {placement = P, sbp = "S(0)"})
local y = rille.ones({2}, {placement = P, sbp = "S(0)"})
x:sum():item()
rille.snapshot{}
print(rille._snapshot())
for k = 1, 6 do
  rille.snapshot{k = k - 1}
  x:copy_(rille.full({2, 1 << 22}, k, {placement = P, sbp = "S(0)"}))
  rille.snapshot{k = k}
  assert(y:sum():item() == 2)
  os.execute(("sleep 0.0%d; kill -9 %d"):format(math.random(0, 9), rille.workers()[2].pid))
  assert(not pcall(function() for _ = 1, 1e5 do y:sum():item() end end))
  local note = rille.recover()
  assert(note.k == k or note.k == k - 1)
  assert(x:max():item() == note.k and x:min():item() == note.k, "bits of another moment")
  x:copy_(rille.full({2, 1 << 22}, k, {placement = P, sbp = "S(0)"}))
end
print "all"
LUA
seed=${SEED:-$RANDOM}
echo "# SEED=$seed"
share && RILLE_HOSTS=2 go launch -n 2 -d cpu:1 copied.lua $seed &&
  is "a snapshot is copied to another host while the program continues" "$(head -1 "$dir/out")" "2	1" &&
  ok "a host lost at any moment leaves a complete snapshot" [ "$code $(tail -1 "$dir/out")" = "0 all" ]

# Damages bytes of a snapshot. Rille must detect the damage before recovery, and restore the bytes from another host.
cp "$root/t/lib/damage.pl" .
cat >damaged.lua <<'LUA'
local P = rille.placement("cpu", {0, 1})
local x = rille.full({2, 1 << 12}, 1234.5678, {placement = P, sbp = "S(0)"})
local y = rille.full({1 << 12}, 8765.4321, {placement = P, sbp = "B"})
local want, both = x:sum():item(), y:sum():item()
local function damage(value, rank)
  return io.popen(("perl damage.pl %d %s"):format(rille.workers()[rank + 1].pid, value)):read("l")
end
for k, ranks in ipairs{{}, {0}, {0, 1}} do
  rille.snapshot{k}
  rille.recover() -- computes the digests
  x:copy_(rille.zeros({2, 1 << 12}, {placement = P, sbp = "S(0)"}))
  for _, rank in ipairs(ranks) do assert(damage(1234.5678, rank) == "damaged" and damage(8765.4321, rank) == "damaged") end
  local good, err = pcall(rille.recover)
  print(#ranks, good and err[1] == k or err, x:sum():item() == want, y:sum():item() == both)
  if not good then break end
end
LUA
RILLE_HOSTS=2 go launch -n 2 -d cpu:1 damaged.lua
is "damaged bytes of a snapshot are restored from another host" "$code $(head -2 out)" "0 0	true	true	true
1	true	true	true"
no_other='recover: the snapshot is damaged: the shard of a variable f32{[0-9, ]*} on cpu:[01] has changed, and no other copy exists'
ok "if no host has the bytes, the error names the variable" grep -qE "^2	damaged.lua:13: $no_other" out
go launch -n 2 -d cpu:1 damaged.lua
ok "damaged bytes on a single host are an error that names the variable" grep -qE "^1	damaged.lua:13: $no_other" out

# Damages a snapshot on all hosts. If the previous snapshot was kept, recovery must use it and report the reason.
cat >before.lua <<'LUA'
local P = rille.placement("cpu", {0, 1})
local x = rille.full({2, 1 << 12}, 0, {placement = P, sbp = "S(0)"})
local opt = rille.optim.SGD(rille.nn.Linear(2, 2):parameters(), {lr = 1})
local function damage(value) -- damages the value in the memory of each host
  for rank = 0, arg[1] - 1 do
    assert(io.popen(("perl damage.pl %d %s"):format(rille.workers()[rank + 1].pid, value)):read("l") == "damaged")
  end
end
for k = 1, 3 do
  x:copy_(rille.full({2, 1 << 12}, 1234.5678 * k, {placement = P, sbp = "S(0)"}))
  opt.lr = k
  rille.snapshot({k}, {keep = 2})
end
rille.recover() -- computes the digests
x:copy_(rille.zeros({2, 1 << 12}, {placement = P, sbp = "S(0)"}))
damage(1234.5678 * 3)
local note, why = rille.recover()
local want = rille.tensor(1234.5678 * 2):item()
print(note[1], opt.lr, x:min():item() == want and x:max():item() == want, why:match("the snapshot is damaged") or why)
print(rille.recover()[1], select("#", rille.recover()))
damage(1234.5678 * 2)
print(pcall(rille.recover))
for _, keep in ipairs{3, 0, "2"} do print(pcall(rille.snapshot, {}, {keep = keep})) end
print(pcall(rille.recover, {workers = "2"}))
print(pcall(rille.snapshot, {print}))
LUA
for hosts in 1 2; do
  share || continue
  RILLE_HOSTS=$hosts go launch -n 2 -d cpu:1 before.lua $hosts
  is "on $hosts host(s) recovery skips a damaged snapshot for the previous one, and reports this" "$code $(head -2 out)" \
    "0 2	2	true	the snapshot is damaged
2	1"
  ok "if the previous snapshot is damaged, too, recovery fails" grep -qE "^false	before.lua:[0-9]*: $no_other" out
  for keep in 3 0 '"2"'; do
    ok "keep = $keep is refused" grep -qE "^false	.*: keep must be 1 or 2, found $keep\$" out
  done
  ok "workers = \"2\" is refused" grep -qE '^false	.*: workers must be an integer of at least 0, found "2"$' out
  ok "the error names the invalid part of a note" grep -qE '^false	.*: snapshot: note.1 must be a number, a string, a boolean or a table of them, found a function' out
done

# Loses a host before its shards of the newest snapshot are copied to another host. Recovery must report the missing
# copy.
cat >passed.lua <<'LUA'
local P = rille.placement("cpu", {0, 1})
local x = rille.full({2, 1 << 22}, 1, {placement = P, sbp = "S(0)"})
rille.snapshot{0} -- the first snapshot is copied synchronously
local last, k, note, why = 0, 0
repeat
  k = k + 1
  rille.snapshot{k}
  os.execute("kill -9 " .. rille.workers()[2].pid)
  assert(not pcall(function() while true do (x * 2):sum():item() end end))
  note, why = rille.recover()
  assert(note[1] == (why and last or k), why)
  last = note[1]
until why or k == 30
print((why:gsub("snapshot %d+", "snapshot K")))
print(select("#", rille.recover()))
LUA
RILLE_HOSTS=2 go launch -n 2 -d cpu:1 passed.lua
is "recovery skips a snapshot that lacks a lost host's shards, and reports this" "$code $(cat out)" \
  "0 recover: of snapshot K, the shard of a variable f32{2, 4194304} on cpu:1 (worker 1, host1) was lost before another host had it
1"

# Loses a worker during a snapshot. The error must name the snapshot.
cat >amid.lua <<'LUA'
local x = rille.full({2, 1 << 12}, 1, {placement = rille.placement("cpu", {0, 1}), sbp = "S(0)"})
rille.snapshot{1}
os.execute("kill -STOP " .. rille.workers()[2].pid)
local good, err = pcall(rille.snapshot, {2})
print(good or rille.is_lost(err) and tostring(err):match("snapshot: (.+)") ~= nil)
LUA
RILLE_HOSTS=2 go launch -n 2 -d cpu:1 amid.lua
is "a worker lost during a snapshot is reported as such" "$code $(cat out)" "0 true"

cat >lost.lua <<'LUA'
local x = rille.ones({64, 64}, {placement = rille.placement("cpu", {0, 1}), sbp = "S(0)"})
x:sum():item()
os.execute("kill -9 " .. rille.workers()[2].pid)
local function go() for _ = 1, 1e6 do x:sum():item() end end
local good, err = pcall(go)
print(good, rille.is_lost(err), rille.is_lost(setmetatable({}, {__tostring = function() return err end})), rille.is_lost(nil))
print(rille.workers()[2].state, pcall(go))
error(err, 0)
LUA
go launch -n 2 -d cpu:1 lost.lua
ok "rille.is_lost recognises a loss, which persists until recovery" grep -q "^lost	false	.*worker 1 (.*, pid [0-9]*) was killed by signal 9" "$dir/out"
ok "an uncaught loss ends the program with 3" ends 3 "lost.lua:4" "was killed by signal 9"

printf ':workers\nx = rille.ones({4})\nos.execute("kill -9 " .. rille.workers()[2].pid)\nx:sum():item()\n1 + 41\n:workers\n' >lines
timeout $hang "$rille" launch -n 2 -d cpu:1 -i -e '' <lines >out 2>err
code=$?
ok "at a prompt a loss is an ordinary error, and the prompt continues" grep -q 42 out
ok ":workers shows the lost worker" grep -q '1 *lost' out

cat >alone.lua <<'LUA'
local x = rille.ones({2})
rille.snapshot{"note", {1}}
local before = x * 2
x:copy_(rille.zeros({2}))
local seed = rille.rand({1}):item()
local note = rille.recover()
print(x:sum():item(), before:sum():item(), note[1], note[2][1], rille.rand({1}):item() == seed, #rille.workers())
LUA
go -d cpu:2 alone.lua
ok "one process has snapshots, too" [ "$code $stdout" = "0 2.0	4.0	note	1	true	1" ]
go launch -n 2 -d cpu:1 alone.lua
ok "two processes have snapshots" [ "$code $stdout" = "0 2.0	4.0	note	1	true	2" ]

# ---- programs that are no longer used ----

cat >"$dir/again.lua" <<'LUA'
local P = rille.placement("cpu", {0, 1, 2, 3})
local x = rille.ones({4, 8}, {placement = P, sbp = "S(0)"})
local function made(times)
  local step = rille.graph(function(a) return (a * times):to_global{placement = P, sbp = "B"}:sum() end)
  assert(step(x):item() == 32 * times)
  step = nil
  collectgarbage()
  collectgarbage()
end
for _ = 1, 3 do made(2) end           -- found in the cache
for times = 3, 50 do made(times) end -- more than workers keep
made(2)
print(#rille.workers())
LUA
for hosts in 1 2; do
  share || continue
  RILLE_HOSTS=$hosts go launch -n 4 -d cpu:1 again.lua
  is "recreated steps, and more steps than workers keep, run on $hosts host(s)" "$code $stdout" "0 4"
done

# ---- keys, addresses, and the end of a job ----

port=$(free_port)
"$rille" keys >"$dir/key"
ok "a key file is readable by its owner only" [ "$(stat -c %a "$dir/key")" = 600 ]
ok "a key file has three lines" [ "$(wc -l <"$dir/key")" = 3 ]
chmod 644 "$dir/key"
go worker --join "tcp://127.0.0.1:$port" --key-file "$dir/key" -d cpu:1
ok "a key file that other users can read is refused" ends 1 "other users can read"
chmod 600 "$dir/key"
sed '2s/./x/' "$dir/key" >"$dir/bad"
chmod 600 "$dir/bad"
go coordinator --bind "tcp://127.0.0.1:$port" --world 1 --key-file "$dir/bad" -e ''
ok "the error of a damaged key file names the line" ends 2 "line 2"
go coordinator --bind "tcp://127.0.0.1:70000" --world 1 -e ''
ok "an invalid port is a usage error" ends 2 "70000"
go worker --join "127.0.0.1:5555"
ok "an invalid address is a usage error" ends 2 "tcp://HOST:PORT"
go launch -n 1000 -e ''
ok "too many workers are a usage error" ends 2 "-n"
go worker --join "tcp://127.0.0.1:$port" -d cpu:1 --wait 1
ok "a worker reports that no coordinator was found" ends 1 "no coordinator"
echo 'os.execute("exec sleep '$hang'")' >sleep.lua
# Kills the controller before its child `sleep`. Otherwise the program would end by itself when `sleep` ends.
killed() { local sleeps; sleeps=$(pgrep -P "$controller" sleep); kill -9 "$controller" $sleeps; }
"$rille" coordinator --bind "tcp://127.0.0.1:$port" --world 1 sleep.lua >/dev/null 2>&1 &
controller=$!
"$rille" worker --join "tcp://127.0.0.1:$port" -d cpu:1 2>"$dir/err" &
worker=$!
await pgrep -P "$controller" sleep >/dev/null
go worker --join "tcp://127.0.0.1:$port" -d cpu:1
ok "a worker too many ends with the reason" ends 1 "already has its 1 worker"
go coordinator --bind "tcp://127.0.0.1:$port" --world 1 -e ''
ok "a port in use is reported" ends 2 "$port"
killed
wait "$worker" 2>/dev/null
ok "a disconnected worker ends with 1" [ $? = 1 ]
"$rille" launch -n 2 -d cpu:1 sleep.lua >/dev/null 2>&1 &
controller=$!
await pgrep -P "$controller" sleep >/dev/null
workers=$(pgrep -P "$controller" rille)
killed
ok "a controller that is killed leaves no worker" await are_gone $workers
ok "no file is left" [ -z "$(ls -A "$dir/run" "$dir/tmp" | grep -v ':$' | tr -d '\n')" ]

finish
