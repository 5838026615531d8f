#!/bin/bash
# p2p.sh - tests pipelines over GPUs of several workers with point-to-point links of NCCL between stages: the real
# plug-in runs in each worker, on stand-ins for CUDA and NCCL (t/host/toolkit.c, t/host/nccl.c). Ranks of the NCCL
# stand-in communicate across processes. Sends either wait for the matching receives, or are buffered. p2p.sh
# path/to/rille; prints TAP.
own=$(realpath "$1") build=$(dirname "$(realpath "$1")") root=$PWD rille=$1
. t/lib/nccl.sh
count() { grep -c "^$1" "$dir/told"; }

# ---- every schedule gives the bits of one device, for any stages and both kinds of sends (RILLE_LONG: all
# combinations)

few='s/^local schedules = .*/local schedules = {"1f1b", "gpipe", "zb-h1", {lag = 3, split_backward = true}}/
  s/ipairs{"1f1b", "gpipe", "zb-h1", "zb-h2", "auto".*} do/ipairs{"1f1b", "zb-h1"} do/; s/for zero = 0, 3 do/for zero = 0, 3, 3 do/'
[ -z "${RILLE_LONG:-}" ] || few=
sed -e "$few" -e 's/^local function cpu(d) return rille.placement("cpu"/local function cpu(d) return rille.placement("cuda"/; s/and 0 or 10/and 0 or 1/' \
  -e "s/stage on cpu\[/stage on cuda[/; s,t/parallel/schedules-bits.lua:,$dir/schedules-bits.lua:,g" t/parallel/schedules-bits.lua >"$dir/schedules-bits.lua"
for shape in "4 cuda:0 " "2 cuda:0,cuda:1 ,buffers"; do
  read -r workers devices word <<<"$shape"
  FAKE_CUDA=$FAKE_CUDA$word nccl -n "$workers" -d "$devices,cpu:6" "$dir/schedules-bits.lua"
  is "schedules on $workers workers${word:+ with buffered sends} give the bits of one device" "$code $(grep -c '^not ok' "$dir/out")" "0 0"
  ok "the schedules use sends of NCCL" test "$(count send)" -gt 100
  is "each send is received" "$(count recv)" "$(count send)"
done

# ---- a GPT whose first and last stage share the embedding

sed -n '/^cat >gpt.lua/,/^LUA$/p' t/launch/gpt.sh | sed '1d;$d; s/placement("cpu"/placement("cuda"/g' >"$dir/gpt.lua"
for layout in pp pp-tp; do
  anew
  go --collectives nccl -d cuda:all,cpu:1 "$dir/gpt.lua" $layout
  want=$stdout
  for shape in "1 2 cuda:0,cuda:1 " "2 4 cuda:0 ,buffers"; do
    read -r hosts workers devices word <<<"$shape"
    FAKE_CUDA=$FAKE_CUDA$word RILLE_HOSTS=$hosts nccl -n "$workers" -d "$devices,cpu:1" "$dir/gpt.lua" $layout
    is "a GPT in $layout on $workers workers has the losses of one process" "$stdout$stderr" "${want:-nothing}"
    ok "the GPT uses sends of NCCL" test "$(count send)" -gt 0
  done
done

# ---- the plan sends two values and their gradients between stages, and copies none of them through host memory

cat >"$dir/two.lua" <<'LUA'
local steps, dies = tonumber(arg[1]), arg[2] == "dies"
local first, second = rille.placement("cuda", {0}), rille.placement("cuda", {1})
rille.manual_seed(4)
local function weight(placement) return rille.randn({8, 8}, {placement = placement}):requires_grad_(true) end
local a, b, c = weight(first), weight(first), weight(second)
local opt = rille.optim.SGD({a, b, c}, {lr = 0.05})
local x = rille.randn({16, 8}, {placement = first})
local step = rille.graph(function(x)
  local left, right = x:matmul(a):relu():to_global{placement = second}, x:matmul(b):to_global{placement = second}
  local loss = (left:matmul(c) * right):mean()
  loss:backward() opt:step() opt:zero_grad()
  return loss
end, {micro_batches = 4})
local losses = {}
for i = 1, steps do
  if dies and i == 4 then dofile("t/lib/steps/killed.lua")(3, function() return step(x):item() end) end
  losses[i] = ("%a"):format(step(x):item())
end
local text, n = tostring(step:plan()), {}
for word in text:gmatch("(%a+ by nccl)") do n[word] = (n[word] or 0) + 1 end
io.stderr:write(("%d %d %s\n"):format(n["send by nccl"] or 0, n["recv by nccl"] or 0, text:find("transfer", 1, true) and "transfers" or "none"))
print(table.concat(losses, " "))
LUA
anew
go -d cuda:all,cpu:1 "$dir/two.lua" 3
want=$stdout
nccl -n 2 -d cuda:0,cpu:1 "$dir/two.lua" 3
is "two values per micro-batch, and their gradients, give the losses of one process" "$stdout" "${want:-nothing}"
is "the plan names sends and receives, and no transfers" "$stderr" "4 4 none"
is "three steps make as many sends and receives as planned" "$(count send) $(count recv)" "48 48"
is "nothing is copied through host memory" "$(count carry)" 0
is "there is one communicator per direction" "$(grep -oE '^communicator [0-9]+' "$dir/told" | sort -u | wc -l)" 2

# ---- more values in flight than a stream accepts, in both directions

many='local first, second = rille.placement("cuda", {0}), rille.placement("cuda", {1})
  local a, b = {}, {}
  for i = 1, 100 do a[i], b[i] = rille.ones({3}, {placement = first}) * i, rille.ones({3}, {placement = second}) * i end
  local step = rille.graph(function()
    local there, back = 0, 0
    for i = 1, 100 do there, back = there + a[i]:to_global{placement = second} * i, back + b[i]:to_global{placement = first} * i end
    return there:sum(), back:sum()
  end)
  for i = 1, 3 do local x, y = step() print(x:item(), y:item()) end'
for word in "" ,buffers; do
  FAKE_CUDA=$FAKE_CUDA$word nccl -n 2 -d cuda:0,cpu:1 -e "$many"
  is "a hundred values in each direction${word:+, buffered,} arrive" "$code $stdout" "0 $(printf '1015050.0\t1015050.0\n%.0s' 1 2 3)"
  is "each value has its own send" "$(count send) $(count recv)" "600 600"
done

# ---- failures

anew
go -d cuda:all,cpu:1 "$dir/two.lua" 6
want=$stdout
for word in "" ,buffers; do
  FAKE_CUDA=$FAKE_CUDA$word nccl -n 2 -d cuda:0,cpu:1 "$dir/two.lua" 6 dies
  is "a worker killed during${word:+ buffered} sends is lost, and training continues with the same bits" "$stdout$(grep '^lost' "$dir/err")" "${want:-nothing}lost"
done

loses 'placement = first' 'placement = second'
fails cuda:0 'placement = first' 'placement = first' 'placement = second'
outlives send "placement = rille.placement('cuda', {0})" "placement = rille.placement('cuda', {1})"
finish
