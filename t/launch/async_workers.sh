#!/bin/bash
# async_workers.sh - tests workers with async test devices, whose memory no other process and no host code
# can access. Checks that results are bit-identical to those of one process, and that files, checkpoints, and recovery
# from a snapshot work. Prints TAP.
rille=$1
. t/lib/processes.sh
root=$PWD
async_copy() { sed 's/"cpu"/"async"/g; s/cpu:/async:/g; s/cpu\[/async[/g' "$1" >"$2"; }

# ---- the bits of one process ----

mkdir "$dir/examples"
ln -s "$root/examples/data" "$dir/examples/data"
async_copy examples/digits.lua "$dir/examples/digits.lua"
digits() { # digits FILE LAYOUT ARGUMENTS...: prints the losses of 5 steps in hex
  local file=$1 layout=$2
  shift 2
  rm -f "$dir/log"
  go "$@" "$file" --steps 5 --log "$dir/log" --layout "$layout"
  cat "$dir/log"
}
case=0
for layout in single dp tp dp-tp pp pp-tp; do
  want=
  for shape in "1 4" "2 2" "4 1"; do
    share $((case++)) || continue
    [ -n "$want" ] || want=$(digits examples/digits.lua $layout -d cpu:4)
    read -r workers devices <<<"$shape"
    got=$(digits "$dir/examples/digits.lua" $layout launch -n "$workers" -d "async:$devices,cpu:1")
    is "$layout on $workers x $devices async devices gives the bits of one process" "$got" "${want:-nothing}"
  done
done

# ---- tests in Lua, on two workers ----

for test in session/several-results shell/graph shell/tensor files/save files/checkpoint hostile/random-calls op/layouts parallel/offload; do
  share $((case++)) || continue
  async_copy "t/$test.lua" "$dir/${test##*/}.lua"
  SHARE=all go launch -n 2 -d async:4,cpu:1 "$dir/${test##*/}.lua"
  is "$test.lua holds" "$code $(grep -c '^ok' "$dir/out" | sed 's/^0$/none/; s/^[1-9].*/ok/')" "0 ok"
done

# ---- lost workers ----

cat >"$dir/train.lua" <<'LUA'
local kind, dies = arg[1], arg[2] == "dies"
local P = rille.placement(kind, {0, 1, 2, 3})
rille.manual_seed(3)
local net = rille.nn.Linear(8, 4)
net:to_global{placement = P, sbp = "B"}
local adam = rille.optim.AdamW(net:parameters(), {lr = 0.01})
local x = rille.randn({16, 8}, {placement = P, sbp = "S(0)"})
local step = rille.graph(function(x)
  local y = net(x)
  local loss = (y * y):mean()
  loss:backward() adam:step() adam:zero_grad()
  return loss
end)
local i, losses = 0, {}
while i < 12 do
  i = i + 1
  local ok, e = pcall(function() losses[i] = ("%a"):format(step(x):item()) end)
  if not ok then
    assert(rille.is_lost(e), e)
    io.stderr:write("lost\n")
    i = rille.recover().i
  elseif i == 4 then
    rille.snapshot{i = i}
  elseif dies and i == 7 then
    dies = false
    os.execute("sleep 0.5; kill -9 " .. rille.workers()[2].pid)
  end
end
print(table.concat(losses, " "))
LUA
go -d cpu:4 "$dir/train.lua" cpu lives
want=$stdout
go launch -n 2 -d async:2,cpu:1 "$dir/train.lua" async lives
is "a step on async devices of two workers has the losses of one process" "$stdout" "${want:-nothing}"
go launch -n 2 -d async:2,cpu:1 "$dir/train.lua" async dies
is "after a worker is killed, training resumes from a snapshot with the same bits" "$stdout$stderr" "${want:-nothing}lost"

# ---- copies between devices of a remote host ----

cat >"$dir/copies.lua" <<'LUA'
local kind, file = arg[1], arg[2]
local P = rille.placement(kind, {2, 3, 1})
local x = rille.arange(0, 60):reshape{5, 3, 4}
local wrong = 0
for _, sbp in ipairs{"B", "S(0)", "S(1)", "P"} do
  rille.save(file, {x = x:to_global{placement = P, sbp = sbp}})
  for _, to in ipairs{"B", "S(0)", "S(1)", "P"} do
    local y = rille.load(file, {placement = P, sbp = to}).x
    if (y - x:to_global{placement = P, sbp = to}):abs():sum():item() ~= 0 then wrong = wrong + 1 end
  end
end
print(wrong)
LUA
for shape in "cpu cpu:2" "async async:2,cpu:1"; do
  read -r kind devices <<<"$shape"
  RILLE_HOSTS=2 go launch -n 2 -d "$devices" "$dir/copies.lua" "$kind" "$dir/x.safetensors"
  is "$kind: equal shards are copied within their memory" "$code $stdout" "0 0"
done

# ---- unsupported device lists are rejected ----

go launch -n 2 -d async:2 -e ''
ok "workers without a cpu device are refused" ends 2 "cpu:1"
go launch -n 2 -d meta:2,cpu:1 -e ''
ok "workers with meta devices are refused" ends 2 "meta"
finish
