#!/bin/bash
# Tests checkpoints for which each worker writes and reads its own shards (--root). Workers on any mesh, or a single
# process, can read them. Errors must name damaged files, folders that are not shared (with worker and path), and
# folders into which another training saves. After kills and interrupts, the last complete checkpoint must remain.
# Run: checkpoint.sh path/to/rille; SEED= repeats the moments of kills and interrupts.
rille=$(realpath "$1") seed=$((${SEED:-$$} % 32768))
RANDOM=$seed
. t/lib/processes.sh
echo "# SEED=$seed"
cd "$dir" || exit 2
mkdir shared

# ---- a checkpoint saved on one mesh is loaded on a different mesh ----

# Makes a network and its optimiser on all N devices. Weights are sharded along their first axis (S(0)) or their
# second.
cat >net.lua <<'LUA'
local T = {}
function T.new(seed, sbp, n)
  local ranks = {}
  for r = 0, n - 1 do ranks[#ranks + 1] = r end
  local P, nn = rille.placement("cpu", ranks), rille.nn
  rille.manual_seed(seed)
  local net = nn.Sequential(nn.Linear(13, 9), nn.Linear(9, 700), nn.LayerNorm(700))
  net:to_global{placement = P, sbp = "B"}
  net[1].weight:to_global_{placement = P, sbp = sbp}
  net[2].weight:to_global_{placement = P, sbp = sbp == "S(0)" and "S(1)" or "S(0)"}
  T.opt = rille.optim.AdamW(net:parameters(), {lr = 1e-3})
  T.net, T.parts = net, {model = net, optimizer = T.opt}
  function T.step()
    local loss = net(rille.ones({4, 13}, {placement = P, sbp = "B"})):pow(2):mean()
    loss:backward(); T.opt:step(); T.opt:zero_grad()
  end
end
function T.digest() -- returns a hash of all values, independent of the layout
  local h = 0
  local function add(t)
    for _, v in ipairs(t:reshape{t:numel()}:totable()) do h = (h * 31 + string.unpack("<i8", string.pack("<d", v))) % 0xfffffffb end
  end
  for i, p in ipairs(T.net:parameters()) do
    add(p)
    for _, slot in ipairs{"m", "v"} do if T.opt.slots[i][slot] then add(T.opt.slots[i][slot]) end end
  end
  return ("%08x"):format(h)
end
return T
LUA
cat >save.lua <<'LUA'
local T = dofile("net.lua")
T.new(1, arg[2], tonumber(arg[3]))
T.step()
T.parts.step = 7
rille.checkpoint.save(arg[1], T.parts, {async = true})
print(T.digest())
for _ = 1, 3 do T.step() end -- while the shards are written
LUA
cat >load.lua <<'LUA'
local T = dofile("net.lua")
for i = 3, #arg do
  T.new(2, arg[1], tonumber(arg[2]))
  T.step()
  local step = rille.checkpoint.load(arg[i], T.parts)
  print(arg[i], step, T.digest())
end
LUA
shapes=("one 1 4 1" "hosts 2 2 2" "four 4 1 2" "three 3 1 1")
command() { # command WORKERS DEVICES HOSTS: sets the arguments that run a script on these workers
  export RILLE_HOSTS=$3
  run=(launch -n "$1" -d "cpu:$2" --root "$dir/shared")
  [ "$1" = 1 ] && run=(-d "cpu:$2")
}
want=
for shape in "${shapes[@]}"; do
  read -r name workers devices hosts <<<"$shape"
  command "$workers" "$devices" "$hosts"
  go "${run[@]}" save.lua "shared/$name" "S(1)" $((workers * devices))
  want+="shared/$name	7	$stdout"$'\n'
  files=$(cd "shared/$name" && echo *)
  stem=checkpoint-00000001-step-7 shards=
  [ "$workers" -gt 1 ] && for ((r = 0; r < workers; r++)); do shards+="$stem.$r.shard "; done
  is "$workers processes of $hosts hosts write one file each, and a manifest" "$files" "$shards$stem.safetensors"
done
for shape in "${shapes[@]}"; do
  read -r name workers devices hosts <<<"$shape"
  command "$workers" "$devices" "$hosts"
  for sbp in "S(0)" "S(1)"; do
    share || continue
    go "${run[@]}" load.lua "$sbp" $((workers * devices)) shared/one shared/hosts shared/four shared/three
    is "$workers processes of $hosts hosts read every checkpoint as $sbp" "$stdout" "${want%$'\n'}"
  done
done
unset RILLE_HOSTS
[ "$(stat -c %s shared/four/*.safetensors)" -lt 20000 ]
ok "the controller's file contains no values" [ $? = 0 ]

# ---- bytes that a worker reads ----

cat >bytes.lua <<'LUA'
local function made(sbp)
  local net = rille.nn.Linear(1024, 4096, {bias = false})
  net:to_global{placement = rille.placement("cpu", {0, 1, 2, 3}), sbp = sbp}
  return net
end
local function read_so_far() -- returns the bytes read by each worker
  local list = {}
  for i, w in ipairs(rille.workers()) do
    local file <close> = assert(io.open(("/proc/%d/io"):format(w.pid)))
    list[i] = tonumber(file:read("a"):match("rchar: (%d+)"))
  end
  return list
end
local net = made("S(0)")
rille.checkpoint.save("shared/bytes", {model = net})
local before = read_so_far()
rille.checkpoint.load("shared/bytes", {model = net})
tostring(net:parameters()[1])
local share, beside = 4 * 1024 * 4096 // #before, 1 << 18 -- a worker also reads some other bytes
for i, bytes in ipairs(read_so_far()) do
  bytes = bytes - before[i]
  print(bytes >= share and bytes < share + beside and "its own" or ("%d bytes, its own are %d"):format(bytes, share))
end
LUA
if cat "/proc/$$/io" >/dev/null 2>&1; then
  for hosts in 1 2; do
    share || continue
    RILLE_HOSTS=$hosts go launch -n 4 -d cpu:1 --root "$dir/shared" bytes.lua
    is "each worker of $hosts hosts reads only its own shards, once" "$stdout" $'its own\nits own\nits own\nits own'
    rm -r shared/bytes
  done
else
  skip "each worker reads only its own shards" "/proc does not report the bytes read"
fi

# ---- damaged checkpoints ----

flip() { printf '\xff' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
command 2 2 2
run_load() { RILLE_HOSTS=2 go "${run[@]}" load.lua "S(0)" 4 "$1"; }
cp -r shared/four shared/damaged
flip "$dir/shared/damaged/checkpoint-00000001-step-7.2.shard" 700
run_load shared/damaged
ok "a changed byte is an error that names worker and file" \
  ends 1 "worker " "checkpoint-00000001-step-7.2.shard: damaged: the checksum of the bytes from position 0 on"
go -d cpu:4 load.lua "S(0)" 4 shared/damaged
ok "a changed byte is an error for one process, too" ends 1 "checkpoint-00000001-step-7.2.shard: damaged"
truncate -s 500 shared/damaged/checkpoint-00000001-step-7.2.shard
run_load shared/damaged
ok "the error names a truncated file" ends 1 "checkpoint-00000001-step-7.2.shard: damaged: it has 500 bytes"
rm shared/damaged/checkpoint-00000001-step-7.2.shard
run_load shared/damaged
ok "the error names a missing file" ends 1 "checkpoint-00000001-step-7.2.shard: No such file"
cp -r shared/four shared/two
for file in shared/two/*; do cp "$file" "${file/00000001-step-7/00000002-step-8}"; done
sed -i 's/00000001-step-7/00000002-step-8/g' shared/two/checkpoint-00000002-step-8.safetensors
cat >again.lua <<'LUA'
local T = dofile("net.lua")
T.new(1, "S(1)", 4)
T.step()
T.parts.step = 9
for _ = 1, 2 do rille.checkpoint.save(arg[1], T.parts, {keep = 2}) end
T.parts.step = nil
local path = arg[1] .. "/checkpoint-00000004-step-9.1.shard"
local file = io.open(path, "r+b")
file:seek("set", 300); file:write("\255\1\255"); file:close()
print(pcall(rille.checkpoint.load, arg[1], T.parts))
print(rille.checkpoint.load(arg[1], T.parts, {fallback = true}))
LUA
RILLE_HOSTS=2 go "${run[@]}" again.lua shared/two
ok "the error of a damaged checkpoint offers fallback" grep -q "fallback = true} loads the one before it" out
is "fallback loads the previous checkpoint" "$(tail -1 out | cut -f1)" 9
is "old checkpoints are deleted with all their files" "$(ls shared/two | tr '\n' ' ')" \
  "$(for i in 3 4; do for r in 0 1; do printf 'checkpoint-0000000%d-step-9.%d.shard ' $i $r; done; printf 'checkpoint-0000000%d-step-9.safetensors ' $i; done)"

# ---- folders that are not shared ----

# one_root NAME PREFIX...: runs save.lua with two workers started by hand. PREFIX is placed before the command of the
# second worker.
one_root() {
  local name=$1 address
  shift
  address=tcp://127.0.0.1:$(free_port)
  "$rille" worker --join "$address" --rank 0 -d cpu:1 --root "$dir/shared" &
  "$@" "$rille" worker --join "$address" --rank 1 --host b -d cpu:1 $root &
  go coordinator --bind "$address" --world 2 --root "$dir/shared" save.lua "shared/$name" "S(0)" 2
  wait
}
root= one_root rootless env
ok "the error of a worker without the root names worker and path" \
  ends 1 "worker 1 (b): $dir/shared/rootless/checkpoint-00000001-step-7.1.shard: not in a folder declared"
is "files of the other workers are deleted" "$(ls shared/rootless)" ""
if unshare -m mount -t tmpfs none shared 2>/dev/null; then
  apart='mount -t tmpfs none "$1"; mkdir -p "$1/$2"; shift 2; exec "$@"'
  root="--root $dir/shared" one_root apart unshare -m bash -c "$apart" - "$dir/shared" other
  ok "the error of a host without the folder names worker and path" \
    ends 1 "worker 1 (b): $dir/shared/apart/checkpoint-00000001-step-7.1.shard: No such file or directory"
  root="--root $dir/shared" one_root apart unshare -m bash -c "$apart" - "$dir/shared" apart
  ok "the error of a host with another folder of that name names worker and path" \
    ends 1 "worker 1 wrote $dir/shared/apart/checkpoint-00000001-step-7.1.shard, but this process does not find it" \
    "all hosts must share that folder"
else
  skip "folders that are not shared" "no mount namespaces here"
fi
go launch -n 2 -d cpu:1 --root "$dir/none" -e ''
ok "a missing root is an error at the start" ends 2 "--root $dir/none: No such file"

# ---- two trainings that save into one folder ----

# Trains a network whose values all equal the number of the training. Reports the first save, then waits until the
# file "go" exists.
cat >job.lua <<'LUA'
local folder, own, saves, go = arg[1], tonumber(arg[2]), tonumber(arg[3]), arg[4]
local P = rille.placement("cpu", {0, 1})
local net = rille.nn.Linear(300, 200):to_global{placement = P, sbp = "S(0)"}
for _, p in ipairs(net:parameters()) do p:fill_(own) end
for i = 1, saves do
  rille.checkpoint.save(folder, {model = net, step = i, note = own}, {async = i % 2 == 0})
  if i == 1 then io.stdout:write("saved by ", own, "\n") io.stdout:flush() end
  while i == 1 and go and not io.open(go) do os.execute("sleep 0.05") end
end
LUA
# Prints the number of wrong values in the folder's checkpoints, and the number of the training that saved each
# checkpoint.
cat >whose.lua <<'LUA'
local net, bad, found = rille.nn.Linear(300, 200), 0, {}
for name in io.popen("ls " .. arg[1]):lines() do
  if name:find "safetensors$" then
    os.execute(("rm -rf one; mkdir one; cp %s/%s* one"):format(arg[1], name:gsub("safetensors$", "")))
    local _, own = rille.checkpoint.load("one", {model = net})
    for _, p in ipairs(net:parameters()) do bad = bad + p:ne(own):to"i64":sum():item() end
    found[#found + 1] = own
  end
end
print(bad, table.concat(found, " "))
LUA
saved() { grep -q "saved by $1" "first$1"; }
shared=(launch -n 2 -d cpu:1 --root "$dir/shared" job.lua shared/both)
"$rille" "${shared[@]}" 1 3 go >first1 2>&1 &
first=$!
await saved 1
go "${shared[@]}" 2 1
ok "a second training that saves into the folder of a running one is refused with folder, both processes and line" \
  ends 1 "shared/both: process " "on $(uname -n) (since " "already saves there, and this is process " "job.lua:6:" "its own folder"
[ "$(grep -o 'process [0-9]*' err | sort -u | wc -l)" = 2 ]
ok "the error names two different processes" [ $? = 0 ]
go -d cpu:2 job.lua shared/both 2 1
ok "a training of one process is refused, too" ends 1 "shared/both: process " "its own folder"
touch go
wait $first
is "the first training saves all its checkpoints, and no file of the others is left" \
  "$? $(ls shared/both | wc -l) $(cat first1)" "0 9 saved by 1"
go "${shared[@]}" 2 1
is "after its end another training may save there" "$code $(ls -A shared/both | wc -l)" "0 12"
go whose.lua shared/both
is "each checkpoint belongs to one training" "$stdout" "0	1 1 1 2"
rm go
"$rille" "${shared[@]}" 3 2 go >first3 2>&1 &
first=$!
await saved 3
kill -9 $first
wait $first 2>/dev/null
goes_on() { go "${shared[@]}" 4 1; [ $code = 0 ]; }
ok "a killed training does not block its folder" await goes_on
for ((i = 10; i < 20; i++)); do
  "$rille" -d cpu:2 job.lua shared/race $i 4 >"first$i" 2>&1 &
done
wait
won=0
for ((i = 10; i < 20; i++)); do
  saved $i && won=$((won + 1)) && continue
  grep -q "its own folder" "first$i" || tell "first$i"
done
go whose.lua shared/race
read -r bad whose <<<"$stdout"
is "of ten trainings started at once each saves all or nothing ($won did)" \
  "$bad $(wc -w <<<"$whose") $(tr ' ' '\n' <<<"$whose" | uniq | wc -l)" "0 $((won * 4)) $won"
ok "at least one of the ten saves" [ $won -gt 0 ]
rm -r shared/both shared/race

# ---- interrupts while workers write and read ----

# Interrupts workers many times while they write and read. A worker must stop between two blocks, and the session must
# continue.
cat >interrupts.lua <<'LUA'
local P, dir, told = rille.placement("cpu", {0, 1}), "shared/interrupts", {wrote = 0, read = 0}
local parts = {model = rille.nn.Linear(4096, 4096):to_global{placement = P, sbp = "S(0)"}, step = 5}
local function save() rille.checkpoint.save(dir, parts, {keep = 1}) end
local function load() rille.checkpoint.load(dir, {model = parts.model}) end
save()
for turn = 1, 60 do -- on a loaded machine a signal may arrive while no worker writes or reads
  if turn > 12 and told.wrote > 0 and told.read > 0 then break end
  local good, err = pcall(function()
    rille._forget_presses()
    io.open("turn", "w"):write(turn):close()
    while true do (turn % 2 == 0 and load or save)() end
  end)
  assert(not good and err:find "interrupted", err)
  local what = err:match "interrupted while workers (%l+) files"
  if what then told[what] = told[what] + 1 end
end
io.open("turn", "w"):write("done"):close()
load()
print(told.wrote > 0, told.read > 0, (parts.model.bias * 0):sum():item(), #rille.workers())
LUA
RILLE_HOSTS=2 timeout --foreground $hang "$rille" launch -n 2 -d cpu:1 --root "$dir/shared" interrupts.lua >out 2>err &
waits=$! # with --foreground, timeout signals only the controller; with -k it would kill after the first signal
turn() { [ "$(cat turn)" = "$1" ] || [ "$(cat turn)" = done ]; }
for ((i = 1; i <= 60; i++)); do
  await turn $i || break
  [ "$(cat turn)" != done ] || break
  sleep "0.$(printf %03d $((100 + RANDOM % 400)))"
  kill -INT $waits
done
wait $waits
is "an interrupt ends writing and reading on workers, and the session continues" "$? $(cat out)" \
  "0 true	true	0.0	2"
whole=$(for file in shared/interrupts/*.safetensors; do ls "${file%.safetensors}"*; done)
is "each checkpoint is complete, and no file of interrupted saves is left" "$(ls shared/interrupts/*)" "$whole"
rm -r shared/interrupts

# ---- kills of controller and workers ----

cat >train.lua <<'LUA'
local T = dofile("net.lua")
T.new(1, "S(1)", 2)
local there, first = pcall(rille.checkpoint.load, arg[1], T.parts)
if not there then
  if not tostring(first):find("no checkpoint") and not tostring(first):find("No such file") then error(first, 0) end
  first = 0
end
for i = first + 1, tonumber(arg[2]) do
  T.step()
  T.parts.step = i
  rille.checkpoint.save(arg[1], T.parts, {async = i % 2 == 0, keep = 2})
  T.parts.step = nil
end
rille.checkpoint.load(arg[1], T.parts)
print(T.digest())
LUA
steps=30 killed=0 bad=0
newest() { ls shared/broken/*.1.shard 2>/dev/null | tail -1; }
saves() { [ "$(newest)" != "$before" ]; }
gone() { ! pgrep -f "$dir/shared" >/dev/null; }
train() { exec "$rille" launch -n 2 -d cpu:1 --root "$dir/shared" train.lua "shared/$1" $steps; }
want=$(train whole)
for turn in 1 2 3 4; do
  before=$(newest)
  train broken >out 2>err &
  pid=$!
  await saves
  sleep "0.$(printf %03d $((RANDOM % 400)))"
  victim=$pid
  [ $turn -gt 2 ] && victim=$(pgrep -P $pid | tail -1)
  [ -n "$victim" ] && kill -9 "$victim" 2>/dev/null && killed=$((killed + 1))
  wait $pid 2>/dev/null
  grep -q "damaged\|not a checkpoint" err && bad=1
  # deletes the checkpoints of a training that has finished, so that the next training starts from the beginning
  [ -z "$(ls shared/broken 2>/dev/null | grep "step-$steps\.safetensors")" ] || rm -rf shared/broken
done
await gone
is "after $killed kills of controller and workers the training resumes from a complete checkpoint, with the same bits" \
  "$bad $(train broken)" "0 ${want:-nothing}"
is "no incomplete file is left" "$(ls shared/broken | wc -l)" 6
finish
