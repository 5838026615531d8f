#!/bin/bash
# Tests what workers report when they join: the name of their job, and their kernels. Workers of another job must be
# rejected. Hosts with different instruction sets must compute the same bits.
rille=$(realpath "$1")
. t/lib/processes.sh
cd "$dir" || exit 1

# ---- workers of another job ----

cat >sum.lua <<'LUA'
print(rille.ones({4}, {placement = rille.placement("cpu", {0, 1}), sbp = "S(0)"}):sum():item())
LUA
# rank: runs a process with the environment variables in $launcher; all jobs use the same port. slurm JOB RANK: sets
# $launcher to the variables of a Slurm step. torchrun JOB RANK: sets $launcher to those of torchrun, with JOB as its
# run id.
rank() { MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout -k 5 $hang env "${launcher[@]}" "$rille" -d cpu:1 sum.lua; }
slurm() { launcher=(SLURM_PROCID=$2 SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_JOB_ID=$1 SLURM_STEP_NUM_NODES=1); }
torchrun() { launcher=(RANK=$2 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=$1); }
named() { launcher=(RANK=$2 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 RILLE_JOB=$1); }
for row in "slurm Slurm 77 78 .0" "torchrun torchrun one two" "named - first second"; do
  read -r by name mine theirs step <<<"$row"
  port=$(free_port)
  label="${name/-/}" label=${label:+$label }
  $by $mine 0; rank >out 2>err & first=$!
  $by $theirs 1; rank >other 2>&1; code=$?
  is "$by: a worker of another job is rejected" "$code" 1
  ok "$by: worker and controller name both jobs" eval 'await grep -q "was refused" err &&
    for f in other err; do grep -qF "expected a worker of job '"'$label$mine$step'"', found one of job '"'$label$theirs$step'"';" $f || exit 1; done'
  $by $mine 1; rank >third 2>&1
  wait $first
  is "$by: the job waits for its own worker, and runs" "$? $(cat out)" "0 4.0"
done

# ---- kernels for different instruction sets ----

# Both hosts compute replicas of a product. Every addition rounds, so another order of additions gives other bits.
cat >product.lua <<'LUA'
local P = rille.placement("cpu", {0, 1})
rille.manual_seed(3)
local a = rille.randn({256, 257}, {placement = P, sbp = "B"})
local b = rille.randn({257, 256}, {placement = P, sbp = "B"})
local y = rille.zeros({256, 256}, {placement = P, sbp = "B"})
local guard = rille.train.replicas{every = 1}
y:copy_(a:matmul(b))
print(guard:after(1), ("%a"):format(y:sum():item()))
LUA
pair() { # pair SET SET: runs product.lua on two hosts, whose workers may use these instruction sets; "": all
  local i=0 set
  port=$(free_port)
  for set; do
    env ${set:+DNNL_MAX_CPU_ISA=$set} "$rille" worker --join "tcp://127.0.0.1:$port" --rank $i --host h$i -d cpu:1 >worker$i 2>&1 &
    i=$((i + 1))
  done
  go coordinator --bind "tcp://127.0.0.1:$port" --world 2 product.lua
  wait
}
pair "" ""
is "hosts with the same instruction sets compute the same bits" "$code ${stdout%%	*}" "0 2"
for sets in "AVX2 ALL" "ALL AVX2" "AVX AVX2" "SSE41 ALL"; do
  pair $sets
  is "sets $sets: hosts with other instruction sets compute the same bits" "$code ${stdout%%	*} $stderr" "0 2 "
  least=$stdout
done
DNNL_MAX_CPU_ISA=SSE41 go launch -n 2 -d cpu:1 product.lua
is "DNNL_MAX_CPU_ISA of the controller limits all workers" "$code $stdout" "0 $least"
go launch -n 2 --isa sse41 -d cpu:1 product.lua
is "--isa limits all workers" "$code $stdout" "0 $least"
go launch -n 2 --isa=sse5 -d cpu:1 product.lua
is "an unknown instruction set is refused" "$code $(head -1 err)" \
  "2 rille: --isa: the instruction set of products must be one of avx512_core_amx, avx512_core_bf16, avx512_core_vnni, avx512_core, avx2_vnni, avx2, avx, sse41, found 'sse5'"
finish
