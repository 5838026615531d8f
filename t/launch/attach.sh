#!/bin/bash
# attach.sh path/to/rille - tests `rille attach`: a prompt in a running controller, whose program continues undisturbed.
# Prints TAP.
rille=$(realpath "$1") pty=$(realpath t/lib/pty.pl)
. t/lib/tap.sh
cd "$dir" || exit 2
mkdir run tmp
export XDG_RUNTIME_DIR=$dir/run TMPDIR=$dir/tmp HOME=$dir XDG_STATE_HOME=$dir/state TERM=xterm INPUTRC=/dev/null NO_COLOR=1
unset RILLE_SEED RILLE_TRACE RILLE_BUS RILLE_THREADS RILLE_DEVICES RILLE_HOSTS

tell() { cat seen err 2>/dev/null; }
# adds this test's process id to job names, because other tests of the same user may run at the same time
job=job$$.lua other=other$$.lua
go() { timeout -k 5 $hang "$rille" "$@" >seen 2>&1 </dev/null; code=$?; }
says() { local t; for t; do grep -qF -e "$t" seen || return 1; done; }
ends() { local want=$1; shift; [ "$code" = "$want" ] && says "$@"; }
hides() { ! says "$@"; }
# lines CHUNK...: sends chunks of Lua to a prompt without a terminal, one chunk a line.
lines() { printf '%s\n' "$@" | timeout -k 5 $hang "$rille" attach $job >seen 2>&1; code=$?; }
# session STEP...: runs a prompt on a terminal, with steps of t/lib/pty.pl.
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
  if slow then -- a trace that takes 0.5 s
    slow = false
    rille.graph(function(a)
      local t = rille.clock()
      while rille.clock() - t < 0.5 do ticks[#ticks + 1] = true end
      return a * 2
    end)(x)
    traced = true
  end
end
print("ended", n > 0)
LUA

go attach $job
ok "attach reports that no program of that name runs" ends 1 "no program called '$job'"
go attach a b
ok "a second name is a usage error" ends 2 "one NAME"
go attach --color
ok "an unknown option is a usage error" ends 2 "expected no option, found --color"

"$rille" launch -n 2 -d cpu:1 $job >out 2>err &
controller=$!
await is_there $job

# ---- a prompt ----

session 'wait rille> ' 'type x:sum():item()\n' 'wait 4.0' 'type local a = n\n' prompt 'type n >= a, _\n' 'wait true' \
  'type {1,\n' 'wait ..' 'type 2}\n' 'wait {1, 2}' prompt 'type \004'
ok "Ctrl-D leaves a prompt on a terminal" ends 0 "attached to $job, process $controller" "4.0" "{1, 2}"
ok "the controller continues" kill -0 $controller
session 'wait rille> ' 'type before = n\n' prompt 'type while true do end\n' pause 'type \003' 'wait interrupted' \
  prompt 'type 6 * 7\n' 'wait 42' prompt 'type :quit\n'
ok "Ctrl-C interrupts the line at the prompt" ends 0 interrupted 42
session 'wait rille> ' 'type for i = 1, 1e12 do x:sum():item() end\n' pause 'type \003' 'wait interrupted' prompt 'type :quit\n'
ok "Ctrl-C interrupts a run of the line" ends 0 interrupted
session 'wait rille> ' 'type while true do pcall(function() while true do end end) end\n' pause 'type \003' pause 'type \003'
ok "a second Ctrl-C leaves a line that does not end" [ "$code" = 130 ]
"$rille" attach $job >seen 2>&1 <<<'while true do end' &
client=$!
await grep -q busy seen
timeout -k 5 $hang "$rille" attach $job >next 2>&1 <<<'6 * 7' &
next=$!
await grep -q busy next
kill $client
wait $client
ok "SIGTERM ends a prompt whose line does not end" [ $? = 143 ]
wait $next
ok "a prompt that was opened while the line ran is served after it" grep -q 42 next
lines 'n > before' 'a'
ok "the program has continued meanwhile" says true
ok "a local variable of one prompt is known at the next" says "rille> "
lines 'print(pcall(error, "one"))' 'error "two"' 'x:reshape{3}' ':workers' '?relu' 'return 5 +'
ok "errors, commands and help pages work as at any prompt" ends 0 "false	one" "shell:2:1: two" "shell:3" "ready" "relu"
lines 'slow = true'
for _ in $(seq 20); do echo 'rille.ones({2}):sum():item()'; sleep 0.05; done | timeout $hang "$rille" attach $job >seen 2>&1
ok "a line waits until the tracing of a step is complete" [ "$(grep -c '^2.0$' seen)" = 20 ]
lines 'assert(traced and #ticks > 0)'
ok "a step was traced meanwhile" hides failed
lines 'rille.ones({2}, {placement = rille.placement("cpu", {0, 1}), sbp = "S(0)"}):sum():item()'
ok "a line computes on the workers" says 2.0
printf '%s\n' 'for i = 1, 1e6 do print(i) end' 'n' | timeout $hang "$rille" attach $job 2>&1 | head -1 >seen
ok "a client that closes while a line prints was attached" says attached
await bash -c "printf '%s\n' '6 * 7' | timeout $hang '$rille' attach $job >seen 2>&1; grep -q 42 seen"
ok "the next client is served" says 42
ok "nothing is printed to the program's own output" [ ! -s out -a ! -s err ]

# ---- a program without workers ----

plain=plain$$.lua
cp $job $plain
"$rille" -d cpu:2 $plain >out3 2>&1 &
alone=$!
await is_there $plain
printf '%s\n' 'x:sum():item()' 'n > 0' | timeout $hang "$rille" attach $plain >seen 2>&1
ok "a program without workers has a prompt, too" says "attached to $plain, process $alone" 4.0 true
go status $plain
ok "rille status reports a program without workers" ends 0 "$plain, process $alone: no workers; now: "
kill -STOP $alone
silent="the controller (process $alone) does not answer; if it is stopped"
go status $plain
ok "rille status says that a stopped program does not answer" ends 1 "status: $silent"
echo '6 * 7' >six
"$rille" attach $plain >next 2>&1 <six & next=$!
"$rille" attach $plain >seen 2>&1 <six & client=$!
await grep -q answer seen
kill -INT $client
wait $client
code=$?
ok "a prompt says that a stopped program does not answer, and Ctrl-C leaves it" ends 130 "attach: $silent" "press Ctrl-C to leave"
for _ in $(seq 12); do perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_SEQPACKET, 0); fcntl($s, 4, 2048); connect($s, pack_sockaddr_un("\0$ARGV[0]")) or exit 1' \
  "rille-attach/$(id -u)/$alone/$plain" || break; done
go attach $plain
ok "a stopped program that accepts no further connections is found" ends 1 "attach: $silent"
kill -CONT $alone
wait $next
ok "the first prompt is served when the program continues" grep -q 42 next
printf '%s\n' 'stop = true' | timeout $hang "$rille" attach $plain >seen 2>&1
wait $alone
ok "the line ends the program" [ $? = 0 -a "$(cat out3)" = "ended	true" ]

"$rille" -d cpu:1 --no-attach -e 'io.stderr:write "up" while not io.open "over" do end' 2>up & alone=$!
await grep -q up up
ok "--no-attach opens no socket" eval '! grep -q "@rille-attach/.*/$alone/" /proc/net/unix'
touch over
wait $alone

# ---- permissions ----

"$rille" launch -n 1 -d cpu:1 -i -e '' >/dev/null 2>&1 < <(tail --pid=$$ -f /dev/null) &
second=$!
cp $job $other
"$rille" launch -n 2 -d cpu:1 $other >out2 2>&1 &
third=$!
await is_there $other
await grep -q "@rille-attach/.*/$second/chunk" /proc/net/unix
go attach
ok "with several programs a name is required" ends 2 "several" "$controller  $job" "$third  $other"
printf '%s\n' 6*7 | timeout $hang "$rille" attach $third >seen 2>&1
ok "attach accepts a process id" says "attached to $other" 42
printf '%s\n' 'stop = true' | timeout $hang "$rille" attach $other >seen 2>&1
await bash -c "! kill -0 $third"
wait $third
ok "a line can end the program" [ $? = 0 -a "$(cat out2)" = "ended	true" ]
kill $second
wait $second 2>/dev/null

# speak PACKET...: sends raw packets to the controller and prints the answer.
cat >speak.pl <<'PL'
use strict; use warnings; use Socket qw(:DEFAULT pack_sockaddr_un);
my ($name, @packets) = @ARGV;
socket(my $s, AF_UNIX, SOCK_SEQPACKET, 0) or die;
connect($s, pack_sockaddr_un("\0$name")) or die "connect: $!\n";
for my $p (@packets) { send($s, $p, 0) or last }
my $set = ""; vec($set, fileno($s), 1) = 1;
select($set, undef, undef, 10) or print("nothing\n"), exit;
my $answer = "";
# the connection may be reset before the answer can be read
for (1 .. 2) { last if defined recv($s, $answer, 512, 0) && length $answer }
print length($answer) ? "$answer\n" : "end\n";
PL
name="rille-attach/$(id -u)/$controller/$job"
speak() { perl speak.pl "$name" "$@" >seen 2>&1; }
speak "H$("$rille" --version | sed 's/^rille //; s/,.*//')"
ok "a client that passes no streams is refused" says "N" "no terminal"
speak 'L1 print(1)'
ok "a line before the greeting closes the connection" says end
speak 'Hello'
ok "an invalid greeting is refused" says "N"
speak "$(head -c 70000 /dev/zero | tr '\0' H)"
ok "a packet that is too long closes the connection" says end
speak $'\x01'
ok "invalid bytes close the connection" says end
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
  ok "a client of another version is refused with both versions" says "it runs rille" "this is rille 9.9.9"
else
  skip "a client of another version is refused with both versions" "not x86-64"
fi
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  chmod 755 "$dir"
  nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  timeout $hang "${nobody[@]}" "$rille" attach $job </dev/null >seen 2>&1
  code=$?
  ok "another user does not find the controller" ends 1 "no program called '$job' of this user"
  "${nobody[@]}" perl speak.pl "$name" "H0.1.0" >seen 2>&1
  ok "the controller refuses raw packets of another user" says "another user"
  "${nobody[@]}" perl speak.pl "$name" S >seen 2>&1
  ok "another user gets no status" says end
  cat >claim.pl <<'PL'
use strict; use warnings; use Socket qw(:DEFAULT pack_sockaddr_un);
socket(my $s, AF_UNIX, SOCK_SEQPACKET, 0) or die;
bind($s, pack_sockaddr_un("\0$ARGV[0]")) && listen($s, 0) or die;
print "ready\n"; close STDOUT; sleep 60;
PL
  own=own$$.lua
  "${nobody[@]}" perl claim.pl "rille-attach/0/1/$own" >claimed & stranger=$!
  await grep -q ready claimed
  go attach $own
  ok "a name that another user has taken is not connected to" ends 1 "no program called '$own' of this user"
  kill $stranger
  if unshare -p -f --mount-proc true 2>/dev/null; then
    unshare -p -f --mount-proc timeout $hang "$rille" attach $job </dev/null >seen 2>&1
    code=$?
    ok "a container with the host's network does not find the controller" ends 1 "no program called '$job' of this user" "in this container"
    unshare -p -f --mount-proc perl speak.pl "$name" "H0.1.0" >seen 2>&1
    ok "the controller refuses raw packets from a container" says "another container"
  else
    skip "a container with the host's network does not find the controller" "no pid namespaces can be made here"
  fi
else
  skip "another user is not permitted" "this user cannot be another"
fi

# ---- a controller that waits at its own prompt; a controller that ends ----

cat >prompt.sh <<SH
echo \$\$ >pid
exec "$rille" launch -n 1 -d cpu:1 --no-init
SH
printf '%s\n' 'wait rille> ' 'type y = 5\n' prompt 'type half typed' 'within 60 never' | perl "$pty" bash prompt.sh >seen2 2>&1 &
terminal=$!
await test -s pid
pid=$(cat pid) # matches only the prompt of this test, because the same user may have other prompts
await grep -q "@rille-attach/.*/$pid/prompt" /proc/net/unix
asked() { printf '%s\n' 'y + 1' 'print("seen it")' | timeout $hang "$rille" attach "$pid" >seen 2>&1; says 6 "seen it"; }
ok "a controller waiting at its own prompt answers, too" await asked
kill -9 $terminal
kill "$pid" 2>/dev/null
wait $terminal 2>/dev/null

rm seen
{ await grep -q "in a loop" seen; kill -9 $controller; } &
printf '%s\n' 'print "in a loop"' 'while true do end' 6 | timeout -k 5 $hang "$rille" attach $job >seen 2>&1
code=$?
ok "the prompt reports that its controller was killed" ends 1 "the controller has ended"
await bash -c "! grep -q rille-attach.*$$ /proc/net/unix"
ok "no socket is left" eval '! is_there $job'
finish
