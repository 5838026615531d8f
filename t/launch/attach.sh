#!/bin/bash
# rille attach: a prompt on a controller that runs, which goes on as if nobody had come. attach.sh path/to/rille. TAP.
rille=$(realpath "$1") pty=$(realpath t/lib/pty.pl)
. t/lib/tap.sh
cd "$dir" || exit 2
mkdir run tmp
export XDG_RUNTIME_DIR=$dir/run TMPDIR=$dir/tmp HOME=$dir XDG_STATE_HOME=$dir/state TERM=xterm INPUTRC=/dev/null NO_COLOR=1
unset RILLE_SEED RILLE_TRACE RILLE_BUS RILLE_THREADS RILLE_DEVICES RILLE_HOSTS

tell() { cat seen err 2>/dev/null; }
# Names have this test's process in them: others of this user may run.
job=job$$.lua other=other$$.lua
go() { timeout -k 5 $hang "$rille" "$@" >seen 2>&1 </dev/null; code=$?; }
says() { local t; for t; do grep -qF -e "$t" seen || return 1; done; }
ends() { local want=$1; shift; [ "$code" = "$want" ] && says "$@"; }
hides() { ! says "$@"; }
# lines CHUNK...: each is typed at a prompt that is no terminal.
lines() { printf '%s\n' "$@" | timeout -k 5 $hang "$rille" attach $job >seen 2>&1; code=$?; }
# session STEP...: follows the steps of t/lib/pty.pl.
session() { printf '%s\n' "$@" | perl "$pty" "$rille" attach $job >seen 2>&1; code=$?; }
is_there() { grep -q "@rille-attach/.*/$1" /proc/net/unix; }

cat >$job <<'LUA'
local P = rille.placement("cpu", {0, 1})
x = rille.ones({4}, {placement = P, sbp = "S(0)", name = "x"})
n, ticks, stop = 0, {}, false
local step = rille.graph(function(a) return (a * 2):to_global{placement = P, sbp = "B"}:sum() end)
local turn = coroutine.wrap(function()
  while true do
    assert(step(x):item() == 8)
    n = n + 1
    coroutine.yield()
  end
end)
while not stop do
  turn()
  if slow then -- a trace that takes its time
    slow = false
    rille.graph(function(a)
      local t = os.clock()
      while os.clock() - t < 0.5 do ticks[#ticks + 1] = true end
      return a * 2
    end)(x)
    traced = true
  end
end
print("ended", n > 0)
LUA

go attach $job
ok "where no controller of that name runs, attach says so" ends 1 "no controller called '$job'"
go attach a b
ok "a second name is an error of usage" ends 2 "one NAME"
go attach --color
ok "and so is an option" ends 2 "no option --color"

"$rille" launch -n 2 -d cpu:1 $job >out 2>err &
controller=$!
await is_there $job

# ---- a prompt ----

session 'wait rille> ' 'type x:sum():item()\n' 'wait 4.0' 'type local a = n\n' prompt 'type n >= a, _\n' 'wait true' \
  'type {1,\n' 'wait ..' 'type 2}\n' 'wait {1, 2}' prompt 'type \004'
ok "a prompt on a terminal, which Ctrl-D leaves" ends 0 "attached to $job, process $controller" "4.0" "{1, 2}"
ok "the controller runs on" kill -0 $controller
session 'wait rille> ' 'type before = n\n' prompt 'type while true do end\n' pause 'type \003' 'wait interrupted' \
  prompt 'type 6 * 7\n' 'wait 42' prompt 'type :quit\n'
ok "its Ctrl-C stops its own line" ends 0 interrupted 42
session 'wait rille> ' 'type for i = 1, 1e12 do x:sum():item() end\n' pause 'type \003' 'wait interrupted' prompt 'type :quit\n'
ok "and a run in it" ends 0 interrupted
session 'wait rille> ' 'type while true do pcall(function() while true do end end) end\n' pause 'type \003' pause 'type \003'
ok "a second one leaves a line that does not end" [ "$code" = 130 ]
lines 'n > before' 'a'
ok "the program did not stop" says true
ok "a local of one prompt is there at the next" says "rille> "
lines 'print(pcall(error, "one"))' 'error "two"' 'x:reshape{3}' ':workers' '?relu' 'return 5 +'
ok "errors, commands and pages are as at any prompt" ends 0 "false	one" "shell:2:1: two" "shell:3" "ready" "relu"
lines 'slow = true'
for _ in $(seq 20); do echo 'rille.ones({2}):sum():item()'; sleep 0.05; done | timeout $hang "$rille" attach $job >seen 2>&1
ok "a line waits until the trace of a step is whole" [ "$(grep -c '^2.0$' seen)" = 20 ]
lines 'assert(traced and #ticks > 0)'
ok "and one was made meanwhile" hides failed
lines 'rille.ones({2}, {placement = rille.placement("cpu", {0, 1}), sbp = "S(0)"}):sum():item()'
ok "a line computes on the workers" says 2.0
printf '%s\n' 'for i = 1, 1e6 do print(i) end' 'n' | timeout $hang "$rille" attach $job 2>&1 | head -1 >seen
ok "who goes away while a line prints is forgotten" says attached
await bash -c "printf '%s\n' '6 * 7' | timeout $hang '$rille' attach $job >seen 2>&1; grep -q 42 seen"
ok "and the next is served" says 42
ok "nothing of it was printed where the program prints" [ ! -s out -a ! -s err ]

# ---- who may ----

"$rille" launch -n 1 -d cpu:1 -i -e '' >/dev/null 2>&1 < <(tail --pid=$$ -f /dev/null) &
second=$!
cp $job $other
"$rille" launch -n 2 -d cpu:1 $other >out2 2>&1 &
third=$!
await is_there $other
await grep -q "@rille-attach/.*/$second/chunk" /proc/net/unix
go attach
ok "of several controllers one has to be named" ends 2 "several" "$controller  $job" "$third  $other"
printf '%s\n' 6*7 | timeout $hang "$rille" attach $third >seen 2>&1
ok "by its process too" says "attached to $other" 42
printf '%s\n' 'stop = true' | timeout $hang "$rille" attach $other >seen 2>&1
await bash -c "! kill -0 $third"
wait $third
ok "a line ends the program when it says so" [ $? = 0 -a "$(cat out2)" = "ended	true" ]
kill $second
wait $second 2>/dev/null

# speak USER PACKET...: what the controller answers whoever that is; a packet may have our streams with it.
cat >speak.pl <<'PL'
use strict; use warnings; use Socket qw(:DEFAULT pack_sockaddr_un);
my ($name, @packets) = @ARGV;
socket(my $s, AF_UNIX, SOCK_SEQPACKET, 0) or die;
connect($s, pack_sockaddr_un("\0$name")) or die "connect: $!\n";
for my $p (@packets) { send($s, $p, 0) or last }
my $set = ""; vec($set, fileno($s), 1) = 1;
select($set, undef, undef, 10) or print("nothing\n"), exit;
my $answer = "";
for (1 .. 2) { last if defined recv($s, $answer, 512, 0) && length $answer } # a reset hides what was said
print length($answer) ? "$answer\n" : "end\n";
PL
name="rille-attach/$(id -u)/$controller/$job"
speak() { perl speak.pl "$name" "$@" >seen 2>&1; }
speak "H$("$rille" --version | sed 's/^rille //; s/,.*//')"
ok "who brings no terminal is not let in" says "N" "no terminal"
speak 'L1 print(1)'
ok "a line before the greeting ends the link" says end
speak 'Hello'
ok "and so do words of another kind" says "N"
speak "$(head -c 70000 /dev/zero | tr '\0' H)"
ok "and a packet that is too long" says end
speak $'\x01'
ok "and bytes that are none" says end
cat >version.pl <<'PL'
use strict; use warnings; use Socket qw(:DEFAULT pack_sockaddr_un);
socket(my $s, AF_UNIX, SOCK_SEQPACKET, 0) or die;
connect($s, pack_sockaddr_un("\0$ARGV[0]")) or die "connect: $!\n";
# sendmsg with SCM_RIGHTS: x86-64's number, struct msghdr and cmsghdr.
my $text = "H9.9.9";
my $control = pack("Q i i i3 x4", 28, 1, 1, 0, 1, 2);
my $iov = pack("P Q", $text, length $text);
my $msg = pack("Q Q P Q P Q i x4", 0, 0, $iov, 1, $control, length $control, 0);
syscall(46, fileno($s), $msg, 0) > 0 or die "sendmsg: $!\n";
recv($s, my $answer, 512, 0);
print "$answer\n";
PL
if [ "$(uname -m)" = x86_64 ]; then
  perl version.pl "$name" >seen 2>&1
  ok "one of another version is told both" says "it is rille" "this is rille 9.9.9"
else
  skip "one of another version is told both" "not x86-64"
fi
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  chmod 755 "$dir"
  nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  timeout $hang "${nobody[@]}" "$rille" attach $job </dev/null >seen 2>&1
  code=$?
  ok "another user is not permitted" ends 1 "not permitted"
  "${nobody[@]}" perl speak.pl "$name" "H0.1.0" >seen 2>&1
  ok "nor by the controller, whatever speaks to it" says "another user's"
else
  skip "another user is not permitted" "this user cannot be another"
fi

# ---- at a prompt, and at the end ----

cat >prompt.sh <<SH
echo \$\$ >pid
exec "$rille" launch -n 1 -d cpu:1 --no-init
SH
printf '%s\n' 'wait rille> ' 'type y = 5\n' prompt 'type half typed' 'within 60 never' | perl "$pty" bash prompt.sh >seen2 2>&1 &
terminal=$!
await test -s pid
pid=$(cat pid) # this test's own: others of this user may wait at prompts
await grep -q "@rille-attach/.*/$pid/prompt" /proc/net/unix
sleep 1
printf '%s\n' 'y + 1' 'print("seen it")' | timeout $hang "$rille" attach "$pid" >seen 2>&1
ok "a controller that waits at its own prompt answers as well" says 6 "seen it"
kill -9 $terminal
kill "$pid" 2>/dev/null
wait $terminal 2>/dev/null

(sleep 2; kill -9 $controller) &
printf '%s\n' 'while true do end' 6 | timeout -k 5 $hang "$rille" attach $job >seen 2>&1
code=$?
ok "a prompt whose controller is killed says that it has ended" ends 1 "the controller has ended"
await bash -c "! grep -q rille-attach.*$$ /proc/net/unix"
ok "and nothing is left" eval '! is_there $job'
finish
