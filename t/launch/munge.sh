#!/bin/bash
# Tests keys from munge (--key-file munge:). Two munge daemons with different keys stand for two sites. Workers of the
# same user and site must join. Credentials of other users and sites, and repeated, expired and foreign ones, must be
# refused, with the cause. Run: munge.sh path/to/rille. Needs Debian's package munge.
rille=$(realpath "$1")
. t/lib/processes.sh
PATH=$PATH:/usr/sbin
if ! type munge unmunge munged >/dev/null 2>&1; then
  skip "keys from munge" "the package munge is not installed"
  finish
fi
cd "$dir" || exit 2
chmod 755 "$dir"

# site SITE: starts a munge daemon. The programs in $dir/SITE/bin use its socket.
site() {
  mkdir -p "$1/bin"
  chmod 755 "$1" "$1/bin"
  head -c 64 /dev/urandom >"$1/key"
  chmod 600 "$1/key"
  munged --force --foreground --num-threads=1 --key-file="$dir/$1/key" --socket="$dir/$1/socket" --pid-file="$dir/$1/pid" \
    --log-file="$dir/$1/log" --seed-file="$dir/$1/seed" >"$1/out" 2>&1 &
  daemons+=($!)
  for program in munge unmunge; do
    printf '#!/bin/sh\nexec %s --socket=%s "$@"\n' "$(command -v $program)" "$dir/$1/socket" >"$1/bin/$program"
  done
  chmod 755 "$1"/bin/*
}
daemons=()
trap 'kill "${daemons[@]}" 2>/dev/null; rm -rf "$dir"' EXIT
site here
site there
if ! await [ -S here/socket ] || ! await [ -S there/socket ]; then
  skip "keys from munge" "munged does not start here: $(head -1 here/out)"
  finish
fi
at=$PATH
PATH=$dir/here/bin:$at

cat >sum.lua <<'LUA'
print(rille.ones({4}, {placement = rille.placement("cpu", {0, 1}), sbp = "S(0)"}):sum():item())
LUA
worker() { "$rille" worker --join "$address" --key-file "$@" -d cpu:1; }
for spec in munge: "munge:$(free_port)"; do
  address=tcp://127.0.0.1:$(free_port)
  worker "$spec" & one=$!
  worker "$spec" & two=$!
  go coordinator --bind "$address" --world 2 --key-file "$spec" sum.lua
  is "workers join with --key-file munge:$([ "$spec" = munge: ] || echo PORT)" "$code $stdout" "0 4.0"
  wait $one $two
done
port=$(free_port)
export MASTER_ADDR=127.0.0.1 MASTER_PORT=$port WORLD_SIZE=2
(RANK=1 timeout $hang "$rille" --key-file munge: -d cpu:1 sum.lua >other 2>&1) &
RANK=0 go --key-file munge: -d cpu:1 sum.lua
is "processes of a launcher find the key" "$code $stdout$(cat other)" "0 4.0"
unset MASTER_ADDR MASTER_PORT WORLD_SIZE

# ---- a coordinator that waits for its worker, and processes that it must refuse ----

port=$(free_port)
address=tcp://127.0.0.1:$port keys=$((port + 1))
timeout $hang "$rille" coordinator --bind "$address" --world 1 --key-file munge: -e 'print("joined")' >joined 2>&1 &
coordinator=$!
await bash -c ": <>/dev/tcp/127.0.0.1/$keys"
send() { # sends a line to the key port; prints the answer
  exec 5<>"/dev/tcp/127.0.0.1/$keys"
  printf '%s\n' "$1" >&5
  head -c 4000 <&5
  exec 5>&-
}
request() { printf 'rille key request\n%s' "${1:-00112233445566778899aabbccddeeff}"; }
credential=$(request | munge)
is "a request of this user is answered with a credential" "$(send "$credential" | head -c 6)" MUNGE:
ok "a repeated request is refused" grep -q '^refused: .*Replayed credential' <<<"$(send "$credential")"
late=$(request | munge --ttl=1)
ok "another text is no request" grep -q '^refused: the credential is not a request' <<<"$(send "$(echo hello | munge)")"
ok "a line that is no credential is refused" grep -q '^refused: unmunge ended with exit code' <<<"$(send hello)"
answer=$(request | munge)
answer=$(send "$answer")
if [ "$(id -u)" = 0 ]; then
  other() { (cd / && exec setpriv --reuid 65534 --clear-groups "$@"); }
  cp "$rille" program && chmod 755 program
  other "$dir/program" worker --join "$address" --key-file munge: -d cpu:1 >out 2>err </dev/null
  ok "a worker of another user is refused" says "--key-file munge: refused: unmunge ended with exit code" "Unauthorized credential"
  ok "a request of another user is refused" grep -q '^refused: expected a credential of user 0, found one of user 65534' <<<"$(send "$(request | other munge)")"
  other unmunge <<<"$answer" >out 2>err
  ok "another user cannot read the key" says "Unauthorized"
else
  skip "a worker of another user is refused" "needs root"
fi
PATH=$dir/there/bin:$at go worker --join "$address" --key-file munge: -d cpu:1
ok "a worker of another site is refused" ends 1 "--key-file munge: refused: unmunge ended with exit code" "Invalid credential" "with the same munge key"
sleep 2.1
ok "an expired request is refused" grep -q '^refused: .*Expired credential' <<<"$(send "$late")"
worker munge: &
wait $coordinator
is "the coordinator still serves its worker" "$(cat joined)" joined
go coordinator --bind "$address" --world 1 --key-file munge:70000 -e ''
ok "a wrong port is an error" ends 1 "--key-file munge: the port for keys must be from 1 to 65535, found 70000"

# ---- answers that a worker must refuse ----

cat >fake.pl <<'PL'
use strict; use IO::Socket::INET;
my ($port, $file) = @ARGV;
my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1:$port", Listen => 5, ReuseAddr => 1) or die;
my $c = $s->accept; <$c>; open(my $f, "<", $file) or die; print $c join("", <$f>);
PL
fake() { # fake TEXT CREDENTIAL: checks the worker's error after this answer
  port=$(free_port)
  echo "$2" >answer
  perl fake.pl $((port + 1)) answer &
  go worker --join "tcp://127.0.0.1:$port" --key-file munge: --wait 20 -d cpu:1
  ok "a worker refuses $1" ends 1 "$3"
}
if perl -MIO::Socket::INET -e 1 2>/dev/null; then
  fake "the answer to another request" "$answer" "--key-file munge: the answer belongs to another request"
  fake "an answer without munge" "hello" "unmunge ended with exit code"
  [ "$(id -u)" = 0 ] && fake "an answer of another user" "$(request | other munge)" "expected a credential of user 0, found one of user 65534"
fi
port=$(free_port)
go worker --join "tcp://127.0.0.1:$port" --key-file munge: --wait 1 -d cpu:1
ok "a worker without a coordinator says so" ends 1 "--key-file munge: no key in 1 seconds; the coordinator must use munge, too:" "Connection refused"

# ---- wrong settings ----

kill "${daemons[0]}"
wait "${daemons[0]}" 2>/dev/null
go coordinator --bind "$address" --world 1 --key-file munge: -e ''
ok "without munged the error says so" ends 1 "--key-file munge: munge ended with exit code" "munged must run on each host"
printf '#!/bin/sh\nPATH=/nowhere exec %s "$@"\n' "$rille" >bare
chmod 755 bare
rille=$dir/bare go coordinator --bind "$address" --world 1 --key-file munge: -e ''
ok "without the programs the error names the package" ends 1 "the program munge cannot be started" "install the package munge"
go launch -n 2 --key-file munge: -e ''
ok "rille launch refuses munge" ends 2 "launch: --key-file must be a file, found munge:"
go worker --join "$address" --key-file munge: --keep 5
ok "--keep refuses munge" ends 2 "--keep needs a key in a file"
finish
