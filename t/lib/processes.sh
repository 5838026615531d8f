# processes.sh - what tests of several processes begin with: tap.sh, folders of their own, no launcher's variables; and
# go, says, ends, are_gone. $rille is the program.
. "${BASH_SOURCE%/*}/tap.sh"
mkdir "$dir/run" "$dir/tmp"
export XDG_RUNTIME_DIR=$dir/run TMPDIR=$dir/tmp
unset RILLE_SEED RILLE_TRACE RILLE_BUS RILLE_THREADS RILLE_DEVICES RILLE_HOSTS
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT ${!SLURM_*} ${!OMPI_*} ${!PMI_*} ${!PMIX_*} JOB_COMPLETION_INDEX

tell() { head -20 "$dir/out" "$dir/err" 2>/dev/null; }
# go ARGUMENTS...: runs it; $code, $stdout and $stderr say what came, and so do the files out and err in $dir.
go() { timeout -k 5 $hang "$rille" "$@" >"$dir/out" 2>"$dir/err" </dev/null; code=$?; stdout=$(cat "$dir/out"); stderr=$(cat "$dir/err"); }
says() { local t; for t; do grep -qF -e "$t" "$dir/err" || return 1; done; } # says TEXT...: the error has them
are_gone() { ! kill -0 "$@" 2>/dev/null; }                                      # are_gone PID...: none of them is there
ends() { local want=$1; shift; [ "$code" = "$want" ] && says "$@"; }          # ends CODE TEXT...
