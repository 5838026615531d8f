#!/bin/bash
# nccl.sh - tests collectives by NCCL among GPUs of several workers: the real plug-in runs in each worker, on
# stand-ins for CUDA and NCCL (t/host/toolkit.c, t/host/nccl.c). Ranks of the NCCL stand-in communicate across
# processes. nccl.sh path/to/rille; prints TAP.
own=$(realpath "$1") build=$(dirname "$(realpath "$1")") root=$PWD rille=$1
. t/lib/nccl.sh
collectives() { grep -oE '^(all-reduce|reduce-scatter|all-gather|all-to-all)' "$dir/told" | sort | uniq -c | awk '{ printf "%s%s %d", sep, $2, $1; sep = ", " }'; }
near() { paste "$1" "$2" | awk -F'\t' '{ n = split($2, a, " "); split($4, b, " "); for (i = 1; i <= n; i++) { d = a[i] - b[i]; if (d < 0) d = -d; if (d > 0.0001 * b[i]) exit 1 } if (n == 0 || $1 != $3) exit 1 }'; }

# ---- layouts: the losses, and the number of NCCL calls, equal those of one process

sed -n '/^cat >"$dir\/layouts.lua"/,/^LUA$/p' t/launch/cuda.sh | sed '1d;$d; s/("%a"):format(step(x):item())/("%.9f"):format(step(x):item())/' >"$dir/layouts.lua"
anew
go -d cuda:all,cpu:1 "$dir/layouts.lua"
cp "$dir/out" "$dir/own"
anew
go --collectives nccl -d cuda:all,cpu:1 "$dir/layouts.lua"
want=$stdout calls=$(collectives)
is "one process trains in six layouts with collectives" "$code $(wc -l <<<"$want") ${calls:+some}" "0 6 some"
for shape in "1 2 cuda:0,cuda:1" "1 4 cuda:2" "2 2 cuda:0,cuda:1" "2 4 cuda:0"; do
  read -r hosts workers devices <<<"$shape"
  RILLE_HOSTS=$hosts nccl -n "$workers" -d "$devices,cpu:1" "$dir/layouts.lua"
  is "$workers workers on $hosts host(s) with $devices each have the same losses" "$stdout$stderr" "${want:-nothing}"
  is "$workers workers on $hosts host(s) with $devices each make as many calls of NCCL" "$(collectives)" "$calls"
done
ok "the losses equal those of plain moves within rounding" near "$dir/out" "$dir/own"

# ---- collectives after all micro-batches, and sharded updates

training=$(sed -n "/^training='/,/OPTIONS)$/p" t/cuda/collectives.sh | sed "1s/^training='//")'
  for i = 1, 3 do print(string.format("%.6f", step(x, labels):item())) end'
for options in '{micro_batches = 4}' '{zero = 1}' '{micro_batches = 2, zero = 1}'; do
  chunk="KIND, RANKS, OPTIONS = 'cuda', {0, 1, 2, 3}, $options $training"
  anew
  go --collectives nccl -d cuda:all,cpu:1 -e "$chunk"
  want=$stdout calls=$(collectives)
  nccl -n 2 -d cuda:0,cuda:1,cpu:1 -e "$chunk"
  is "a step with $options has the losses of one process" "$stdout$stderr" "${want:-nothing}"
  is "a step with $options makes the calls of one process" "$(collectives)" "${calls:-none}"
done

# ---- every move along a mesh axis, exact because values are whole numbers

moves=$(sed -n "/^moves='/,/^  print(n/p" t/cuda/collectives.sh | sed "1s/^moves='//; \$s/'\$//")
DTYPES='DTYPES = {"i32", "i64"} '
anew
go --collectives nccl -d cpu:1,cuda:0,cuda:1,cuda:2,cuda:3 -e "$DTYPES$moves"
calls=$(collectives)
nccl -n 4 -d cpu:1,cuda:0 -e "$DTYPES$moves"
is "moves of whole numbers among four workers have the values of the cpu" "$stdout$stderr" $'46\tright'
is "four workers make the NCCL calls of one process" "$(collectives)" "${calls:-none}"

# ---- a plan lists the collectives, which copy nothing through host memory

gather='local p = rille.placement("cuda", {0, 1, 2, 3})
  local x = rille.randn({64, 2}, {placement = p, sbp = "S(0)"})
  local step = rille.graph(function(x) return x:to_global{sbp = "B"} end)
  step(x)
  local text = tostring(step:plan())
  print(text:find("collect all-gather", 1, true) ~= nil, text:find("send", 1, true) or text:find("recv", 1, true) or text:find("transfer", 1, true))'
nccl -n 2 -d cuda:0,cuda:1,cpu:1 -e "$gather"
is "a plan names the collectives, and has no transfers instead" "$stdout" $'true\tnil'
is "collectives copy nothing through host memory" "$(grep -c '^carry' "$dir/told") $(collectives)" "0 all-gather 4"

# ---- failures

four="placement = rille.placement('cuda', {0, 1, 2, 3})"
fails cuda:0,cuda:1 "$four, sbp = 'S(0)'" "$four, sbp = 'B'" "sbp = 'B'"
ok "communicators are made again after each failure" test "$(grep -oE '^communicator [0-9]+' "$dir/told" | sort -u | wc -l)" -ge 3

sed -n '/^cat >"$dir\/train.lua"/,/^LUA$/p' t/launch/async_workers.sh | sed '1d;$d; s/("%a"):format(step(x):item())/("%.6f"):format(step(x):item())/' >"$dir/train.lua"
cat >"$dir/amid.lua" <<'LUA'
local P = rille.placement("cuda", {0, 1, 2, 3})
rille.manual_seed(3)
local w = rille.randn({8, 4}, {placement = P, sbp = "B"})
w.requires_grad = true
local opt = rille.optim.SGD({w}, {lr = 0.01})
local x = rille.randn({16, 8}, {placement = P, sbp = "S(0)"})
local step = rille.graph(function(x)
  local y = x:matmul(w)
  local loss = (y * y):mean()
  loss:backward() opt:step() opt:zero_grad()
  return loss
end)
local losses = {}
for i = 1, 3 do losses[i] = ("%.6f"):format(step(x):item()) end
if arg[1] == "dies" then dofile("t/lib/steps/killed.lua")(3, function() return step(x):item() end) end
for i = 4, 6 do losses[i] = ("%.6f"):format(step(x):item()) end
print(table.concat(losses, " "))
LUA
anew
go --collectives nccl -d cuda:all,cpu:1 "$dir/train.lua" cuda lives
want=$stdout
nccl -n 2 -d cuda:0,cuda:1,cpu:1 "$dir/train.lua" cuda lives
is "training on GPUs of two workers has the losses of one process" "$stdout" "${want:-nothing}"
nccl -n 2 -d cuda:0,cuda:1,cpu:1 "$dir/train.lua" cuda dies
is "after a worker is killed, training resumes from a snapshot" "$stdout$(grep '^lost' "$dir/err")" "${want:-nothing}lost"
anew
go --collectives nccl -d cuda:all,cpu:1 "$dir/amid.lua" lives
want=$stdout
RILLE_HOSTS=2 nccl -n 4 -d cuda:0,cpu:1 "$dir/amid.lua" dies
is "after one of four workers is killed during a run, training resumes from a snapshot" "$stdout$(grep '^lost' "$dir/err")" "${want:-nothing}lost"

loses "placement = rille.placement('cuda', {0, 1}), sbp = 'S(0)'" 'sbp = "B"'

unmet='local x = rille.ones({8}, {placement = rille.placement("cuda", {1, 2}), sbp = "S(0)"})
  local own = rille.ones({8}, {placement = rille.placement("cuda", {0}), sbp = "B"})
  own:sum():item()
  local step = rille.graph(function(x, own) return x:to_global{sbp = "B"}:sum(), own:sum() end)
  print(pcall(function() return (step(x, own)):item() end))'
meeting() { [ "$(grep -c ^communicator "$dir/told")" = 2 ]; }
anew
FAKE_CUDA=$FAKE_CUDA,unmet timeout -s KILL 60 "$rille" launch --collectives nccl -n 3 -d cuda:0,cpu:1 -e "$unmet" >"$dir/out" 2>"$dir/err" </dev/null & waiting=$!
ok "two of three workers wait for each other forever" await meeting
sleep 0.5
kill -INT "$(pgrep -P $waiting)"
wait $waiting 2>/dev/null
ok "an interrupt ends the wait, although the worker of rank 0 has ended" grep -q 'interrupted' "$dir/out" "$dir/err"

outlives all-gather "placement = rille.placement('cuda', {0, 1}), sbp = 'S(0)'" 'sbp = "B"'

# ---- unsupported setups are rejected

FAKE_CUDA=$alone nccl -n 2 -d cuda:0,cpu:1 -e 'print(1)'
ok "two workers with the same GPU are refused before the program begins" ends 3 "NCCL needs one device per GPU, but a GPU of the worker is also used by rank "
nccl -n 2 -d cuda:0x2,cpu:1 -e 'print(1)'
ok "devices of a worker that share a GPU are refused" ends 3 "one device per GPU; cuda:0 has 2"
FAKE_CUDA=$FAKE_CUDA,oldnccl nccl -n 2 -d cuda:0,cpu:1 -e 'print(1)'
ok "workers without the library are refused" ends 3 "libnccl.so is missing or too old"
nccl -n 2 -d cpu:1 -e 'print(1)'
ok "workers without GPUs are refused" ends 2 'devices of kind cuda; "cpu:1" has none'
go launch -n 2 --collectives mpi -d cuda:0,cpu:1 -e 'print(1)'
ok "--collectives refuses another word" ends 2 'collectives must be "own" or "nccl", found "mpi"'
FAKE_CUDA=$FAKE_CUDA,nonccl nccl -n 2 -d cuda:0,cpu:1 -e 'local x = rille.ones({4}, {placement = rille.placement("cuda", {0, 1}), sbp = "S(0)"})
  print(pcall(function() return x:to_global{sbp = "B"}:sum():item() end))
  print(x:sum():item())'
ok "a communicator that cannot be made is an error with its line" grep -qE "^false.*\(command line\):2: .*a communicator of 2 GPUs could not be made: unhandled system error" <<<"$stdout"

# ---- workers started by hand, each with its own GPU by CUDA_VISIBLE_DEVICES

address=tcp://127.0.0.1:$(free_port)
export FAKE_CUDA=$alone
join() { local rank=$1; shift; CUDA_VISIBLE_DEVICES=$rank "$rille" worker --join "$address" --rank "$rank" -d cuda:0,cpu:1 --wait 20 "$@" 2>"$dir/worker$rank" & }
serve() { # serve OPTIONS...: runs a controller
  timeout 100 "$rille" coordinator --bind "$address" --world 2 "$@" -e "$sum" >"$dir/out" 2>"$dir/err" </dev/null
  code=$? stdout=$(cat "$dir/out") stderr=$(cat "$dir/err")
  wait 2>/dev/null
}
sum='local p = rille.placement("cuda", {0, 1})
  print(rille.arange(8):to_global{placement = p, sbp = "S(0)"}:to_global{sbp = "B"}:sum():item())'
anew
join 0 --collectives nccl
join 1 --collectives nccl
serve --collectives nccl
is "workers of one host with a GPU each use collectives" "$code $stdout$stderr $(collectives)" "0 28 all-gather 2"
anew
join 0 --collectives nccl
join 1
serve --collectives nccl
ok "a controller with --collectives nccl refuses a worker without" ends 2 "collectives = \"nccl\": not all workers use NCCL"
join 0 --collectives nccl
join 1
serve
is "a controller without --collectives nccl uses none" "$code $stdout$stderr $(collectives)" "0 28 "
finish
