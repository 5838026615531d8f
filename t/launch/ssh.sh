#!/bin/bash
# Workers over ssh: the same bits, nothing left whoever ends first, no secret in arguments, environment or logs, and words
# for what cannot be. The ssh here is a script that runs its command on this host, which says that it is the one named.
rille=$1
. t/lib/processes.sh
mkdir "$dir/bin"
root=$PWD
cat >"$dir/bin/ssh" <<SH
#!/bin/bash
printf '%s\n' "\$@" >>"$dir/ssh.log"
name=\${*: -2:1} command=\${*: -1}
case \$name in
  gone) [ -e "$dir/gone" ] && { echo again >>"$dir/gone"; exit 255; } ;;
  away) echo "ssh: connect to host away port 22: No route to host" >&2; exit 255 ;;
  old) command=\${command//"$rille"/"$dir/old"} ;;
  bare) command="exec '$dir/nowhere/rille' worker" ;;
esac
bash -c "\$command --host \$name" <&0 &
echo "\$!" >>"$dir/pids"
tr '\0' '\n' <"/proc/\$!/environ" >>"$dir/environ"
wait "\$!"
SH
chmod +x "$dir/bin/ssh"

PATH=$dir/bin:$PATH
new_address() { address=tcp://127.0.0.1:$(free_port); }
over() { new_address; go launch --bind "$address" "$@"; } # no name of these hosts is known to this one
none_left() { [ -z "$(xargs -r -n 1 ps -o pid= -p <"$dir/pids")" ]; }

# ---- the same bits ----

digits() { # COMMAND...: losses of 5 steps, to the last bit
  rm -f "$dir/log"
  "$@" "$root/examples/digits.lua" --steps 5 --log "$dir/log" --layout dp-tp
  cat "$dir/log"
}
cd "$root" || exit 1
want=$(digits go -d cpu:4)
for list in "a:2,b:2" "localhost:2,a,b" "n[01-04]"; do
  ok "$list computes what one process computes" [ -n "$want" -a "$want" = "$(digits over -d cpu:1 -H "$list")" ]
done
printf '# both\na slots=2 max_slots=4\n  b:2\nc\n' >"$dir/hosts"
ok "so do the first four places of a file" [ "$want" = "$(digits over -n 4 -d cpu:1 --hostfile "$dir/hosts")" ]
"$rille" keys >"$dir/key"
ok "and with a key of one's own" [ "$want" = "$(digits over -d cpu:1 -H a:2,b:2 --key-file "$dir/key")" ]
"$rille" keys --world 4 "$dir/keys"
ok "and with keys of ranks" [ "$want" = "$(digits over -d cpu:1 -H a:2,b:2 --key-file "$dir/keys")" ]
ok "and a bind that is chosen" [ "$want" = "$(digits go launch -d cpu:1 -H me@127.0.0.1:2,127.0.0.2:2)" ]
ok "nothing is left of them" await none_left
secrets=$(sed -nE 's/^(coordinator|worker|secret) (.{40})$/\2/p' "$dir"/key "$dir"/keys/*)
ok "no secret is in arguments or environment" eval '[ -n "$secrets" ] && ! grep -qF "$secrets" "$dir/ssh.log" "$dir/environ"'

cd "$dir" || exit 1
: >ssh.log
over -d cpu:1 -H ssh://me@a:2222 -e ''
is "ssh is told user and port, and never asks" "$(head -n 12 ssh.log | tr '\n' ' ')" \
  "-o BatchMode=yes -o ServerAliveInterval=5 -o ServerAliveCountMax=3 -p 2222 -l me -- a "
OMP_NUM_THREADS=3 GOMP_SPINCOUNT=1000 NOT_CARRIED=x over -d cpu:1 -H a -e ''
for set in OMP_NUM_THREADS=3 GOMP_SPINCOUNT=1000; do ok "$set, which says how to compute, goes along" grep -q "exec 'env' .*'$set'" ssh.log; done
ok "and no others" eval '! grep -qE "NOT_CARRIED|HOME=|XDG_" ssh.log'
OMP_LONG=$(printf 'x%.0s' {1..20000}) over -d cpu:1 -H a -e 'io.write("long")'
is "a command of any length arrives whole" "$stdout" "long"
over -d cpu:1 -H a,b -e 'for _, w in ipairs(rille.workers()) do io.write(w.host, " ") end'
is "workers say where they are" "$stdout" "a b "

# ---- losses and ends ----

cat >lost.lua <<'LUA'
local x = rille.ones({64, 64}, {placement = rille.placement("cpu", {0, 1}), sbp = "S(0)"})
rille.snapshot()
x:sum():item()
os.execute(arg[1] .. " " .. (arg[2] or rille.workers()[2].pid))
local good, err = pcall(function() for _ = 1, 1e6 do x:sum():item() end end)
assert(not good and rille.is_lost(err), err)
io.stderr:write(tostring(err), "\n")
rille.recover()
print(x:sum():item(), #rille.workers())
LUA
over -d cpu:1 -H a,b lost.lua "kill -9"
ok "a worker that is killed is named by its own host and process" grep -qE 'worker 1 \(b, pid [0-9]+\)' "$dir/err"
is "and started again where it was" "$code $stdout" "0 4096.0	2"
over -d cpu:1 -H a,gone lost.lua "touch gone; kill -9"
ok "what cannot be started again is told at once, and not tried again" eval \
  '[ "$code $(cat gone)" = "3 again" ] && grep -qF "worker 1 (gone, pid " err'
over -d cpu:1 -H a,b lost.lua "kill -9 \$(pgrep -f '[b]in/ssh.* b exec'); true"
is "so is one whose ssh is killed" "$code $stdout" "0 4096.0	2"
ok "which ends too" await none_left

echo 'io.stdout:write("up\n") io.stdout:flush() os.execute("exec sleep 30")' >sleep.lua
for signal in TERM KILL; do
  : >pids >up
  new_address
  PATH=$dir/bin:$PATH "$rille" launch --bind "$address" -d cpu:1 -H a,b sleep.lua >up 2>err &
  controller=$!
  await grep -q up up
  sleeps=$(pgrep -P "$controller" sleep)
  kill -$signal "$controller" # first: its program ends when what it waits for does
  kill $sleeps
  ok "SIG$signal of the controller leaves no worker" eval 'grep -q up up && [ "$(wc -l <pids)" = 2 ] && await none_left'
done
is "and no file" "$(find "$dir/run" "$dir/tmp" -mindepth 1 -printf "%P ")" ""

# ---- what cannot be ----

over -d cpu:1 -H a,away -e ''
ok "a host that is not reached is named, with what ssh says" says "[1] ssh: connect to host away" "worker 1 (away, pid "
is "and the program ends as one that lost a worker" "$code" 3
over -d cpu:1 -H bare -e ''
ok "and so is one without this program" says "[0] bash: " "nowhere/rille: No such file" "worker 0 (bare, pid "
version=$("$rille" --version | sed -n 's/^rille \([^,]*\),.*/\1/p')
sed "s/${version//./\\.}/${version//[0-9]/7}/g" "$rille" >old
chmod +x old
over -d cpu:1 -H old,a -e ''
ok "another version is told as such" says "the coordinator is rille $version, the worker is rille ${version//[0-9]/7}"
ok "and ends the program" [ "$code" != 0 ]
PATH=$dir/empty "$rille" launch --bind "$address" -H a -e '' 2>"$dir/err"
ok "without ssh the host is told that it was for" says "ssh, which is to start it on a, could not be run: No such file"
text=$(PATH=$dir/empty "$rille" -d cpu:1 --doctor)
ok ":doctor says so as well" grep -q '^ *ssh  *not there' <<<"$text"
ok "or which it is" grep -q "^ *ssh  *$dir/bin/ssh" <<<"$(PATH=$dir/bin "$rille" -d cpu:1 --doctor)"
go worker --join 'tcp://127.0.0.1:*'
ok "only who binds may leave the port open" ends 2 "its port is a number"
over -H 'a,b c' -e ''
ok "an error of a list has line and column" ends 2 "-H:1:5: behind a host"
printf 'a\nb sluts=2\n' >"$dir/hosts"
over --hostfile "$dir/hosts" -e ''
ok "and the file, where it is one" ends 2 "hosts:2:3: behind a host"
over --hostfile "$dir/nothing" -e ''
ok "a file that is not there" ends 2 "nothing: No such file"
over -H a --hostfile "$dir/hosts" -e ''
ok "two lists" ends 2 "-H or --hostfile"
over -n 3 -H a:2 -e ''
ok "more workers than places" ends 2 "-n wants 3 workers, and the hosts have places for 2"
over -H a:300 -e ''
ok "more than a job has" ends 2 "at most 256 workers"
go launch -H no.such.host.invalid -e ''
ok "a host that this one does not know wants a bind" ends 2 'no way to "no.such.host.invalid"' "--bind"
go launch --bind tcp://10.255.255.254:5999 -H a -e ''
ok "and one where nothing can be bound is an error" ends 2 "10.255.255.254"

finish
