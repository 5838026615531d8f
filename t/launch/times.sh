#!/bin/bash
# times.sh path/to/rille - tests that --silence, --hang, --link and --orphan, and their environment variables, hold with
# each launcher. --doctor shows the limits of the controller and of each worker. TAP.
rille=$(realpath "$1")
. t/lib/processes.sh
cd "$dir" || exit 2
mkdir bin
cat >bin/ssh <<'SSH'
#!/bin/bash
exec env -u RILLE_SILENCE -u RILLE_HANG -u RILLE_LINK -u RILLE_ORPHAN bash -c "${*: -1} --host ${*: -2:1}"
SSH
chmod +x bin/ssh
PATH=$dir/bin:$PATH
tell() { tail -n 20 out err err1 2>/dev/null; }

limits=(silence hang link orphan) usual=(0.8 600 3 4.5)
# Four runs of a launcher give each limit in each of four ways: run K gives limit I in way (K + I) % 4. Ways: 0: not
# given; 1: by the option; 2: by the variable; 3: by both, and the option holds.
choose() { # choose K: sets the arrays given and set to options and variables, and the associative array `want`
  given=() set=()
  local i way by_option by_variable name
  for i in 0 1 2 3; do
    way=$((($1 + i) % 4)) name=${limits[i]} by_option=$((11 + i)).5 by_variable=$((21 + i)).5
    want[$name]=${usual[i]}
    [ $((way & 2)) != 0 ] && set+=("RILLE_${name^^}=$by_variable") && want[$name]=$by_variable
    [ $((way & 1)) != 0 ] && given+=("--$name" $by_option) && want[$name]=$by_option
  done
}
only() { # only NAME...: prints the chosen options of these names
  local i
  for ((i = 0; i < ${#given[@]}; i += 2)); do
    case " $* " in *" ${given[i]#--} "*) echo "${given[i]} ${given[i + 1]}" ;; esac
  done
}
# Each row sets, for processes of rank 0 and 1, the variables by which Rille recognises the launcher.
launchers="
launch
ssh
hand
torchrun        RANK=@ WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=PORT
OpenMPI         OMPI_COMM_WORLD_RANK=@ OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_MCA_ess_base_jobid=PORT
MPICH           PMI_RANK=@ PMI_SIZE=2 MPI_LOCALNRANKS=2
Slurm           SLURM_PROCID=@ SLURM_NTASKS=2 SLURM_STEP_NUM_NODES=1 SLURM_JOB_ID=PORT SLURM_STEP_ID=0
Flux            FLUX_TASK_RANK=@ FLUX_JOB_SIZE=2 FLUX_JOB_NNODES=1 FLUX_JOB_ID=PORT
jsrun           JSM_NAMESPACE_RANK=@ JSM_NAMESPACE_SIZE=2 JSM_NAMESPACE_LOCAL_SIZE=2 LSB_JOBID=PORT
Kubernetes      JOB_COMPLETION_INDEX=@ WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=PORT
LeaderWorkerSet LWS_WORKER_INDEX=@ LWS_GROUP_SIZE=2 LWS_LEADER_ADDRESS=127.0.0.1 MASTER_PORT=PORT"

begin() { # begin LAUNCHER VARIABLE...: starts two workers, and prints what the controller's --doctor shows
  local launcher=$1 port=$(free_port) other=
  shift
  case $launcher in
    launch) go env "${set[@]}" "$rille" launch -n 2 -d cpu:1 "${given[@]}" --doctor ;;
    ssh) go env "${set[@]}" "$rille" launch -H a,b --bind tcp://127.0.0.1:$port -d cpu:1 "${given[@]}" --doctor ;;
    hand)
      for r in 0 1; do
        timeout -k 5 $hang env "${set[@]}" "$rille" worker --join tcp://127.0.0.1:$port -d cpu:1 $(only link orphan) 2>err$r & other+=" $!"
      done
      go env "${set[@]}" "$rille" coordinator --bind tcp://127.0.0.1:$port --world 2 $(only silence hang link) --doctor ;;
    *)
      # all processes of a job on one host have the same parent, which tells jobs apart
      go env "${set[@]}" "of=${*//=PORT/=$port}" bash -c 'env ${of//@/1} "$@" 2>err1 & env ${of//@/0} "$@" && wait $!' \
        bash "$rille" -d cpu:1 "${given[@]}" --doctor ;;
  esac
  wait $other
}
go() { timeout -k 5 $hang "$@" >out 2>err; code=$?; }

declare -A want
i=0
while read -r launcher variables; do
  [ -n "$launcher" ] || continue
  for k in 0 1 2 3; do
    share $((i++)) || continue
    choose $k
    begin $launcher $variables 2>/dev/null
    controller="--silence ${want[silence]}, --hang ${want[hang]}, --link ${want[link]}"
    worker="--link ${want[link]}, --orphan ${want[orphan]}"
    is "$launcher, ${set[*]} ${given[*]}: the limits in force" \
      "$code $(sed -nE 's/^ *time limits, s +//p; s/^ *worker [01] .*(--link [^,]*, --orphan [^,]*),.*/\1/p' out | sed -E 's/\.0\b//g' | paste -sd'|')" \
      "0 $controller|$worker|$worker"
  done
done <<<"$launchers"
finish
