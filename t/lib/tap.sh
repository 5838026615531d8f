# tap.sh - the whole vocabulary of a test in bash: ok, is, skip, finish; await, hang, free_port; and a folder, $dir, that is
# gone at the end. TAP.
#
#   . t/lib/tap.sh
#   ok "the file is there" test -f "$dir/file"
#   finish
#
# A test's name is a sentence that is true. When it fails, what its command printed follows, and then what the test's own
# function `tell` says, where it has one.
n=0 failed=0
hang=900 # seconds after which what should end is taken to hang: far beyond what anything takes beside others
dir=$(mktemp -d) || exit
. () { builtin . "$@" || { echo "Bail out! $1 cannot be read"; exit 1; }; } # a test without its helpers writes where it stands
trap 'rm -rf "$dir"' EXIT

report() { # report STATUS NAME: the status
  n=$((n + 1))
  [ "$1" = 0 ] && { echo "ok $n - $2"; return; }
  failed=$((failed + 1))
  echo "not ok $n - $2"
  return "$1"
}

ok() { # ok NAME COMMAND...: the command succeeds; it runs in this shell
  local name=$1
  shift
  "$@" >"$dir/.said" 2>&1
  report $? "$name" && return
  { cat "$dir/.said"; declare -F tell >/dev/null && tell; } | head -40 | sed -e 's/^/# /' -e '$a\' # ends its last line
}

is() { ok "$1" same "$2" "$3"; } # is NAME GOT WANT
same() { [ "$1" = "$2" ] || { printf 'got:  %s\nwant: %s\n' "$1" "$2"; false; }; }

skip() { report 0 "$1 # SKIP $2"; } # skip NAME WHY

await() { # await COMMAND...: until it succeeds
  local end=$((SECONDS + hang))
  until "$@" 2>/dev/null; do
    [ $SECONDS -lt $end ] || { echo "# never: $*"; return 1; }
    sleep 0.1
  done
}

free_port() { # prints a port that nobody listens on, below those that the kernel gives to who connects
  local p
  while p=$((20000 + RANDOM % 12000)); (: <>"/dev/tcp/127.0.0.1/$p") 2>/dev/null; do :; done
  echo "$p"
}

# share I: this run takes case I (from 0) of an exhaustive loop. SHARE=k/n takes one case in n; all or none takes all. Case 0
# is always taken.
share() {
  [[ ${SHARE:-all} = */* ]] || return 0
  [ -n "${share_said:-}" ] || echo "# share $SHARE"
  share_said=1
  [ "$1" = 0 ] || [ $(($1 * 2654435761 / 8192 % ${SHARE#*/})) = "${SHARE%/*}" ]
}

finish() {
  echo "1..$n"
  [ "$failed" = 0 ]
  exit
}
