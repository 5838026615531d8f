# tap.sh - the functions of a bash test: ok, is, skip, finish, await, free_port, share; $hang; and $dir, a folder that is
# removed at the end. Prints TAP.
#
#   . t/lib/tap.sh
#   ok "the file is there" test -f "$dir/file"
#   finish
#
# A check's name is a sentence that states the expected fact. After a failed check, the output of its command is
# printed, and that of the function `tell` if the test defines one.
n=0 failed=0
hang=900 # timeout of every command that should end, s; far longer than any command takes, even on a busy machine
dir=$(mktemp -d) || exit
# stops if a helper is missing, because the test would then write into the current folder
. () { builtin . "$@" || { echo "Bail out! $1 cannot be read"; exit 1; }; }
trap 'rm -rf "$dir"' EXIT

report() { # report STATUS NAME: prints a result and returns the status
  n=$((n + 1))
  [ "$1" = 0 ] && { echo "ok $n - $2"; return; }
  failed=$((failed + 1))
  echo "not ok $n - $2"
  return "$1"
}

ok() { # ok NAME COMMAND...: checks that the command succeeds; runs it in this shell
  local name=$1
  shift
  "$@" >"$dir/.said" 2>&1
  report $? "$name" && return
  { cat "$dir/.said"; declare -F tell >/dev/null && tell; } | head -40 | sed -e 's/^/# /' -e '$a\' # adds a missing last newline
}

is() { ok "$1" same "$2" "$3"; } # is NAME GOT WANT: checks that both texts are equal
same() { [ "$1" = "$2" ] || { printf 'got:  %s\nwant: %s\n' "$1" "$2"; false; }; }

skip() { report 0 "$1 # SKIP $2"; } # skip NAME WHY

await() { # await COMMAND...: repeats the command until it succeeds
  local end=$((SECONDS + hang))
  until "$@" 2>/dev/null; do
    [ $SECONDS -lt $end ] || { echo "# never: $*"; return 1; }
    sleep 0.1
  done
}

free_port() { # prints an unused port below the kernel's ephemeral ports
  local p
  while p=$((20000 + RANDOM % 12000)); (: <>"/dev/tcp/127.0.0.1/$p") 2>/dev/null; do :; done
  echo "$p"
}

# share [I]: succeeds if this run takes case I (from 0) of an exhaustive loop. SHARE=k/n takes one case in n. Without
# SHARE, or with SHARE=all, a run takes every case. Every run takes case 0. Without I, the calls of this function count
# the cases.
share_calls=0
share() {
  local i=${1:-$((share_calls++))}
  [[ ${SHARE:-all} = */* ]] || return 0
  [ -n "${share_said:-}" ] || echo "# share $SHARE"
  share_said=1
  [ "$i" = 0 ] || [ $((i * 2654435761 / 8192 % ${SHARE#*/})) = "${SHARE%/*}" ]
}

finish() {
  echo "1..$n"
  [ "$failed" = 0 ]
  exit
}
