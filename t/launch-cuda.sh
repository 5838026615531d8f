#!/bin/bash
# launch-cuda.sh - workers that have GPUs, under a controller that has none: the real plug-in in each worker, on a CUDA
# toolkit without a GPU (t/host/toolkit.c). launch-cuda.sh path/to/rille; prints TAP.
own=$(realpath "$1") build=$(dirname "$(realpath "$1")") root=$PWD rille=$1
. "${0%/*}/lib/processes.sh"
. "${0%/*}/lib/toolkit.sh"
export FAKE_CUDA=gpus=4,memory=2000000000
on_cuda() { sed 's/"cpu"/"cuda"/g; s/cpu:/cuda:/g; s/cpu\[/cuda[/g' "$1" >"$2"; }

# ---- what the controller knows ----

facts='local n = 0
  local function tell(i)
    local d = rille.device_info("cuda", i)
    print(d.name, d.memory, d.capability, (d.kernels:gsub(", .*", "")))
  end
  while pcall(tell, n) do n = n + 1 end
  print(select(2, pcall(rille.device_info, "cuda", n)))'
go launch -n 2 -d cuda:1,cuda:3x2,cpu:1 -e "$facts"
is "GPUs of workers count through them, and each tells of its own" "$stdout" "$(for w in 0 1; do
  printf 'fake %d\t2000000000\t9.0\tNVRTC 99.0\n' 1 3 3; done)"$'\n(command line):7: device_info: there is no cuda:6; the workers have 6 of kind cuda'
go launch -n 3 -d cuda:all,cpu:2 -e "$facts"
is "all are as many as each worker's driver shows" "$(grep -c ^fake <<<"$stdout")" 12
CUDA_VISIBLE_DEVICES=2,0 go launch -n 2 -d cuda:all,cpu:1 -e "$facts"
is "and which, as CUDA_VISIBLE_DEVICES of each has it" "$(cut -f1 <<<"$stdout" | head -4 | paste -sd,)" "fake 2,fake 0,fake 2,fake 0"

# ---- the bits of one process ----

# Sums of elements, comparisons, copies: the bits of the cpu; what else is computed, those of one process with GPUs.
mkdir "$dir/examples"
ln -s "$root/examples/data" "$dir/examples/data"
on_cuda examples/digits.lua "$dir/examples/digits.lua"
digits() { # LAYOUT ARGUMENTS...: losses of 3 steps, to the last bit
  local layout=$1
  shift
  rm -f "$dir/log"
  go "$@" "$dir/examples/digits.lua" --steps 3 --log "$dir/log" --layout "$layout"
  cat "$dir/log" 2>/dev/null || tell
}
while read -r layout workers devices; do
  want=$(digits $layout -d cuda:all,cpu:1)
  got=$(digits $layout launch -n "$workers" -d "$devices,cpu:1")
  is "$layout on $workers workers with $devices each is what one process with four GPUs computes" "$got" "${want:-nothing}"
done <<'SHAPES'
single 2 cuda:0,cuda:1
dp 4 cuda:2
tp 2 cuda:0x2
dp-tp 2 cuda:0,cuda:1
dp-tp 4 cuda:all
pp 2 cuda:3,cuda:1
pp-tp 4 cuda:0
SHAPES

for test in several-results checkpoint offload; do
  on_cuda "t/$test.lua" "$dir/$test.lua"
  go launch -n 2 -d cuda:0,cuda:1x3,cpu:1 "$dir/$test.lua"
  is "$test.lua holds" "$code $(grep -c '^ok' "$dir/out" | sed 's/^0$/none/; s/^[1-9].*/ok/')" "0 ok"
done

# ---- what is lost ----

sed -n '/^cat >"$dir\/train.lua"/,/^LUA$/p' t/launch-late.sh | sed '1d;$d' >"$dir/train.lua"
go -d cuda:all "$dir/train.lua" cuda lives
want=$stdout
go launch -n 2 -d cuda:0,cuda:1,cpu:1 "$dir/train.lua" cuda lives
is "a step on GPUs of two workers has the losses of one process" "$stdout" "${want:-nothing}"
go launch -n 2 -d cuda:0,cuda:1,cpu:1 "$dir/train.lua" cuda dies
is "and goes on with the same bits from a snapshot when one was killed" "$stdout$stderr" "${want:-nothing}lost"

# ---- bad input ----

go launch -n 2 -d cuda:9,cpu:1 -e 'print(1)'
ok "a GPU that a worker does not have ends the job before it begins" ends 4 'there is no GPU 9; this host shows 4' ended
for text in cuda:x cuda:0x cuda:-1 cuda:0,cuda:0 cuda:all,cuda:1 cuda:0x99; do
  go launch -n 2 -d "$text,cpu:1" -e 'print(1)'
  ok "$text is told before anything starts" ends 2 "devices: "
done
go launch -n 2 -d cuda:0 -e 'print(1)'
ok "workers with GPUs have a cpu device too" ends 2 "workers have cpu devices"
FAKE_CUDA=driver=0 go launch -n 2 -d cuda:0,cpu:1 -e 'print(1)'
ok "so does a worker without a driver" ends 4 "no device: the NVIDIA driver is missing" ended
full='local at = {placement = rille.placement("cuda", {1})}
  print(pcall(function() return rille.ones({30000000}, at):sum():item() end))
  print(rille.ones({8}, at):sum():item(), rille.ones({8}, {placement = rille.placement("cpu", {1})}):sum():item())'
FAKE_CUDA=gpus=1,memory=100000000 go launch -n 2 -d cuda:0,cpu:1 -e "$full"
is "a worker's GPU that is full says so at the line, and the session goes on" "$(sed 's/^\(false.*cuda:1 wanted [^,]*\).*/\1/' <<<"$stdout")" \
  $'false\t(command line):2: cuda:1 wanted 120.0 MB\n8.0\t8.0'
finish
