#!/bin/bash
# collectives.sh - tests collectives by NCCL: the real plug-in runs on stand-ins for CUDA and NCCL
# (t/host/toolkit.c, t/host/nccl.c). Checks three facts: values equal those of moves without NCCL; no rank waits
# forever after a failed run; unsupported setups are rejected. collectives.sh path/to/rille; prints TAP.
own=$(realpath "$1") build=$(dirname "$(realpath "$1")") root=$PWD
. t/lib/tap.sh
. t/lib/kernel/toolkit.sh
if [ ! -f "$headers/nccl.h" ]; then
  skip "collectives by NCCL" "its header is not installed"
  finish
fi
export FAKE_CUDA_LOG=$dir/told

# go WRONG DEVICES CHUNK: runs the Lua chunk on the devices, with the faults WRONG (FAKE_CUDA). Sets $stdout, $stderr
# and $code.
go() {
  rm -f "$dir/told"
  FAKE_CUDA=$1 timeout $hang "$rille" --collectives "${how:-nccl}" -d "$2" -e "$3" >"$dir/out" 2>"$dir/err"; code=$?
  stdout=$(cat "$dir/out") stderr=$(grep -v "fully support makecontext" "$dir/err")
}
tell() { echo "code $code"; head -20 "$dir/out" "$dir/err"; }
collectives() { grep -oE '^(all-reduce|reduce-scatter|all-gather|all-to-all)' "$dir/told" | sort | uniq -c | awk '{ printf "%s%s %d", sep, $2, $1; sep = ", " }'; }

# ---- unsupported setups are rejected

off() { how=$1 go "" "$2" 'print(1)'; [ "$code" = 2 ] && [ -z "$stdout" ] && grep -qF -- "$3" <<<"$stderr" && [ "$(wc -l <<<"$stderr")" = 1 ]; }
ok "--collectives refuses another word" off mpi cuda:0 'collectives must be "own" or "nccl", found "mpi"'
ok "--collectives nccl is refused for cpus" off nccl cpu:4 'devices of kind cuda; "cpu:4" has none'
ok "--collectives nccl is refused for devices that share a GPU" off nccl cuda:0x2 'one device per GPU; cuda:0 has 2'
old() { FAKE_CUDA=oldnccl "$rille" --collectives nccl -d cuda:0 -e 'print(1)' >"$dir/out" 2>"$dir/err"; [ $? = 2 ] && grep -qF "libnccl.so is missing or too old" "$dir/err"; }
ok "an old NCCL is refused" old
mv "$dir/libnccl.so.2" "$dir/aside"
missing() { off nccl cuda:0 "collectives = \"nccl\": libnccl.so is missing or too old"; }
[ -z "$(ldconfig -p 2>/dev/null | grep libnccl)" ] && ok "a missing NCCL is reported" missing
mv "$dir/aside" "$dir/libnccl.so.2"
simulated() { RILLE_BUS=sim:1 off nccl cuda:0,cuda:1 "the simulator (RILLE_BUS=sim) has one"; }
ok "--collectives nccl is refused on the simulator" simulated
go nonccl cuda:0,cuda:1 'local x = rille.ones({4}, {placement = rille.placement("cuda", {0, 1}), sbp = "S(0)"})
  print(pcall(function() return x:to_global{sbp = "B"}:sum():item() end))'
ok "a communicator that cannot be made is an error with its line" grep -qE "^false.*\(command line\):2: .*a communicator of 2 GPUs could not be made: unhandled system error" <<<"$stdout"

# ---- every move along a mesh axis, in every dtype: values equal those of a cpu, and NCCL gets the expected calls

moves='local n, wrong, host = 0, {}, {placement = rille.placement("cpu", {0}), sbp = "B"}
  local function try(ranks, shape, from, to, dtype)
    local p = rille.placement("cuda", ranks)
    local numel = 1 for _, n in ipairs(shape) do numel = numel * n end
    local x = (rille.arange(numel) % 7):to(dtype):reshape(shape)
    local parts = x:to_global{placement = p, sbp = from}
    local y = parts:to_global{sbp = to}
    n = n + 1
    if not y:to_global(host):eq(x:to_global(host)):all():item() then
      wrong[#wrong + 1] = dtype .. ": " .. rille.json.encode{from, to}
    end
  end
  for _, dtype in ipairs(DTYPES) do
    for _, ranks in ipairs {{0, 1}, {1, 3, 0, 2}} do
      for _, move in ipairs {{"P", "B"}, {"P", "S(0)"}, {"S(0)", "B"}} do try(ranks, {8, 3}, move[1], move[2], dtype) end
      for _, move in ipairs {{"P", "S(1)"}, {"S(1)", "B"}, {"S(0)", "S(1)"}, {"S(1)", "S(0)"}, {"S(2)", "S(1)"}} do
        try(ranks, {4, 4, 4}, move[1], move[2], dtype)
      end
    end
    local mesh = {{0, 1}, {2, 3}}
    for _, move in ipairs {{{"P", "S(1)"}, {"B", "S(1)"}}, {{"S(0)", "P"}, {"S(0)", "B"}}, {{"S(0)", "B"}, {"B", "B"}}, {{"S(1)", "P"}, {"S(1)", "S(0)"}},
      {{"S(0)", "B"}, {"S(1)", "B"}}, {{"S(0)", "S(1)"}, {"S(0)", "S(0)"}}, {{"P", "P"}, {"S(0)", "S(1)"}}} do
      try(mesh, {4, 6}, move[1], move[2], dtype)
    end
  end
  print(n, #wrong == 0 and "right" or table.concat(wrong, "; "))'
all() { go gpus=4 cpu:1,cuda:0,cuda:1,cuda:2,cuda:3 "DTYPES = {$1} $moves"; echo "$stdout $stderr $(collectives)"; [ "$stdout" = "$2"$'\tright' ] && [ "$(collectives)" = "$3" ]; }
ok "moves of f32, i32 and i64 have the values of the cpu" all '"f32", "i32", "i64"' 69 "all-gather 48, all-reduce 42, all-to-all 78, reduce-scatter 60"
ok "moves of f64 and u8 have the values of the cpu" all '"f64", "u8"' 46 "all-gather 32, all-reduce 28, all-to-all 52, reduce-scatter 40"
each="all-gather 16, all-reduce 14, all-to-all 26, reduce-scatter 20"
for half in bf16 f16; do
  ok "moves of $half have the values of the cpu" all "\"$half\"" 23 "$each"
  is "sums of $half are requested in f32 (7), all else in its own dtype" \
    "$(grep -oE '^(all-reduce|reduce-scatter) .*' "$dir/told" | cut -d' ' -f5 | sort -u) $(grep -E '^(all-gather|all-to-all)' "$dir/told" | cut -d' ' -f5 | sort -u | paste -sd' ')" \
    "7 $([ $half = bf16 ] && echo 9 || echo 6)"
done

# ---- training

training='local nn, p = rille.nn, rille.placement(KIND, RANKS)
  rille.manual_seed(3)
  local net = nn.Sequential(nn.Linear(6, 16), nn.GELU({approximate = "tanh"}), nn.Linear(16, 4)):to_global{placement = p, sbp = "B"}
  local opt = rille.optim.SGD(net:parameters(), {lr = 0.05})
  local x = rille.randn(16, 6):to_global{placement = p, sbp = "S(0)"}
  local labels = (rille.arange(16) % 4):to_global{placement = p, sbp = "S(0)"}
  local step = rille.graph(function(x, labels)
    local loss = net(x):cross_entropy(labels)
    loss:backward() opt:step() opt:zero_grad()
    return loss
  end, OPTIONS)
  for i = 1, 3 do print(string.format("%.5f", step(x, labels):item())) end'
trains() { # trains OPTIONS: checks that losses on four GPUs equal those on one cpu within a tolerance
  local want
  want=$("$own" -d cpu:1 -e "KIND, RANKS, OPTIONS = 'cpu', {0}, {} $training")
  go gpus=4 cuda:all "KIND, RANKS, OPTIONS = 'cuda', {0, 1, 2, 3}, $1 $training"
  paste "$dir/out" - <<<"$want" | alike 0.0001 3 && [ -n "$(collectives)" ]
}
ok "a network trains on four GPUs as on a cpu" trains '{}'
ok "all ranks take part in each collective" test $(($(grep -cE '^(all-reduce|reduce-scatter|all-gather|all-to-all)' "$dir/told") % 4)) = 0
is "one communicator is made" "$(grep -oE '^communicator [0-9]+' "$dir/told" | sort -u | wc -l)" 1
ok "a network with sharded updates (zero = 1) trains on four GPUs as on a cpu" trains '{zero = 1}'
again() { go gpus=4 cuda:all "KIND, RANKS, OPTIONS = 'cuda', {0, 1, 2, 3}, {} $training"; cp "$dir/out" "$dir/first"; [ -s "$dir/first" ] && go gpus=4 cuda:all "KIND, RANKS, OPTIONS = 'cuda', {0, 1, 2, 3}, {} $training"; cmp "$dir/first" "$dir/out"; }
ok "two trainings give the same bits" again
how=own go gpus=4 cuda:all "KIND, RANKS, OPTIONS = 'cuda', {0, 1, 2, 3}, {} $training"
is "without --collectives nccl no collective is called" "$(grep -cE '^(all-|reduce-|communicator)' "$dir/told")" 0
go "" cuda:0,cuda:1 'local p = rille.placement("cuda", {0, 1})
  local step = rille.graph(function(x) return x:to_global{sbp = "B"} end)
  local x = rille.randn({4, 2}, {placement = p, sbp = "S(0)"})
  step(x) print(tostring(step:plan()):find("collect all-gather", 1, true) ~= nil)'
ok "the plan names the collectives" test "$stdout" = true

# ---- runs that fail: no rank waits forever, and the next run succeeds

refuses_labels='local p = rille.placement("cuda", {0, 1})
  local w = rille.ones({4, 2}):to_global{placement = p, sbp = "B"}
  local function try(ids)
    return pcall(function()
      local rows = rille.tensor(ids, {dtype = "i64"}):to_global{placement = p, sbp = "S(0)"}
      return rows:embedding(w):sum(0):to_global{sbp = "B"}:sum():item()
    end)
  end
  for i = 1, 3 do
    print(try {0, 1, 2, 3})
    local ok, e = try {0, 1, 2, 9}
    print(ok, tostring(e):match("embedding: [^,;(]*"))
  end'
go "" cuda:0,cuda:1 "$refuses_labels"
ok "wrong ids on one GPU end the run for the other, and the next is right" test "$code" = 0 -a "$(sort -u "$dir/out" | wc -l)" = 2 -a "$(grep -c '^true' "$dir/out")" = 3
lost='local p = rille.placement("cuda", {0, 1})
  local x = rille.ones({8}, {placement = p, sbp = "S(0)"})
  local n, ok, e = 0
  repeat ok, e = pcall(function() return (x + n):to_global{sbp = "B"}:sum():item() end) n = n + 1 until not ok or n == 40
  print(ok, (tostring(e):find("invalid device context; this process can no longer use cuda devices", 1, true)) ~= nil or e)
  print(pcall(function() return x:to_global{sbp = "B"}:sum():item() end))
  print(rille.ones({8}):sum():item())'
for at in 9 14 21; do
  go lost=$at cpu:1,cuda:0,cuda:1 "$lost"
  ok "a GPU that is lost at call $at ends the run, and cpus continue" test "$(sed -n 1p "$dir/out")" = $'false\ttrue' -a "$(sed -n 3p "$dir/out")" = 8.0
done
finish
