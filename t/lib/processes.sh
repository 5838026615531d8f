# processes.sh - setup of tests of several processes. Reads tap.sh, makes private folders, removes environment
# variables of launchers, and defines the functions go, says, ends and are_gone. $rille must be the program.
. "${BASH_SOURCE%/*}/tap.sh"
mkdir "$dir/run" "$dir/tmp"
export XDG_RUNTIME_DIR=$dir/run TMPDIR=$dir/tmp
unset RILLE_SEED RILLE_TRACE RILLE_BUS RILLE_THREADS RILLE_DEVICES RILLE_HOSTS
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT ${!SLURM_*} ${!OMPI_*} ${!PMI_*} ${!PMIX_*} JOB_COMPLETION_INDEX

tell() { head -20 "$dir/out" "$dir/err" 2>/dev/null; }
# go ARGUMENTS...: runs $rille with the arguments. Sets $code, $stdout and $stderr, and writes the files out and err
# in $dir.
go() { timeout -k 5 $hang "$rille" "$@" >"$dir/out" 2>"$dir/err" </dev/null; code=$?; stdout=$(cat "$dir/out"); stderr=$(cat "$dir/err"); }
says() { local t; for t; do grep -qF -e "$t" "$dir/err" || return 1; done; } # says TEXT...: succeeds if stderr contains each text
# are_gone PID...: succeeds if none of the processes exists
are_gone() { ! kill -0 "$@" 2>/dev/null; }
# ends CODE TEXT...: succeeds if the exit code is CODE and stderr contains each text
ends() { local want=$1; shift; [ "$code" = "$want" ] && says "$@"; }
