#!/bin/bash
# Tests workers over ssh: they give the same bits as one process; no processes are left, whichever process ends first;
# no secret is in arguments, environment or logs; and errors are clear. The ssh of this test is a script that runs the
# command on this host, under the given host name.
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
# over ARGUMENTS...: launches workers that connect to an address of this host, because its host names do not resolve
# here
over() { new_address; go launch --bind "$address" "$@"; }
none_left() { [ -z "$(xargs -r -n 1 ps -o pid= -p <"$dir/pids")" ]; }

# ---- the bits of one process ----

digits() { # digits COMMAND...: prints the losses of 5 steps in hex
  rm -f "$dir/log"
  "$@" "$root/examples/digits.lua" --steps 5 --log "$dir/log" --layout dp-tp
  cat "$dir/log"
}
cd "$root" || exit 1
want=$(digits go -d cpu:4)
for list in "a:2,b:2" "localhost:2,a,b" "n[01-04]"; do
  ok "$list gives the bits of one process" [ -n "$want" -a "$want" = "$(digits over -d cpu:1 -H "$list")" ]
done
printf '# both\na slots=2 max_slots=4\n  b:2\nc\n' >"$dir/hosts"
ok "the first four slots of a host file give the bits of one process" [ "$want" = "$(digits over -n 4 -d cpu:1 --hostfile "$dir/hosts")" ]
"$rille" keys >"$dir/key"
ok "a shared key gives the same bits" [ "$want" = "$(digits over -d cpu:1 -H a:2,b:2 --key-file "$dir/key")" ]
"$rille" keys --world 4 "$dir/keys"
ok "keys of ranks give the same bits" [ "$want" = "$(digits over -d cpu:1 -H a:2,b:2 --key-file "$dir/keys")" ]
ok "an address chosen by launch gives the same bits" [ "$want" = "$(digits go launch -d cpu:1 -H me@127.0.0.1:2,127.0.0.2:2)" ]
ok "no worker is left" await none_left
secrets=$(sed -nE 's/^(coordinator|worker|secret) (.{40})$/\2/p' "$dir"/key "$dir"/keys/*)
ok "no secret is in arguments or environment" eval '[ -n "$secrets" ] && ! grep -qF "$secrets" "$dir/ssh.log" "$dir/environ"'

cd "$dir" || exit 1
: >ssh.log
over -d cpu:1 -H ssh://me@a:2222 -e ''
is "ssh receives user and port, and never prompts" "$(head -n 12 ssh.log | tr '\n' ' ')" \
  "-o BatchMode=yes -o ServerAliveInterval=5 -o ServerAliveCountMax=3 -p 2222 -l me -- a "
OMP_NUM_THREADS=3 GOMP_SPINCOUNT=1000 NOT_CARRIED=x over -d cpu:1 -H a -e ''
for set in OMP_NUM_THREADS=3 GOMP_SPINCOUNT=1000; do ok "$set, which affects computing, is passed to workers" grep -q "exec 'env' .*'$set'" ssh.log; done
ok "other variables are not passed to workers" eval '! grep -qE "NOT_CARRIED|HOME=|XDG_" ssh.log'
OMP_LONG=$(printf 'x%.0s' {1..20000}) over -d cpu:1 -H a -e 'io.write("long")'
is "a long command arrives complete" "$stdout" "long"
over -d cpu:1 -H a,b -e 'for _, w in ipairs(rille.workers()) do io.write(w.host, " ") end'
is "workers report their host names" "$stdout" "a b "

# ---- lost workers are replaced, and no process is left after the end ----

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
ok "the error names a killed worker's host and process" grep -qE 'worker 1 \(b, pid [0-9]+\)' "$dir/err"
is "a killed worker is restarted on its host" "$code $stdout" "0 4096.0	2"
over -d cpu:1 -H a,gone lost.lua "touch gone; kill -9"
ok "a worker that cannot be restarted is reported at once, without a retry" eval \
  '[ "$code $(cat gone)" = "3 again" ] && grep -qF "worker 1 (gone, pid " err'
over -d cpu:1 -H a,b lost.lua "kill -9 \$(pgrep -f '[b]in/ssh.* b exec'); true"
is "a worker whose ssh is killed is restarted" "$code $stdout" "0 4096.0	2"
ok "a worker whose ssh is killed ends" await none_left

echo 'io.stdout:write("up\n") io.stdout:flush() os.execute("exec sleep 30")' >sleep.lua
for signal in TERM KILL; do
  : >pids >up
  new_address
  PATH=$dir/bin:$PATH "$rille" launch --bind "$address" -d cpu:1 -H a,b sleep.lua >up 2>err &
  controller=$!
  await grep -q up up
  sleeps=$(pgrep -P "$controller" sleep)
  # Kills the controller before its child `sleep`. Otherwise the program would end by itself when `sleep` ends.
  kill -$signal "$controller"
  kill $sleeps
  ok "SIG$signal of the controller leaves no worker" eval 'grep -q up up && [ "$(wc -l <pids)" = 2 ] && await none_left'
done
is "no file is left" "$(find "$dir/run" "$dir/tmp" -mindepth 1 -printf "%P ")" ""

# ---- errors: unreachable hosts, a missing or different program, invalid arguments ----

over -d cpu:1 -H a,away -e ''
ok "the error names an unreachable host, with ssh's message" says "[1] ssh: connect to host away" "worker 1 (away, pid "
is "an unreachable host ends the program with 3" "$code" 3
over -d cpu:1 -H bare -e ''
ok "the error names a host without this program" says "[0] bash: " "nowhere/rille: No such file" "worker 0 (bare, pid "
version=$("$rille" --version | sed -n 's/^rille \([^,]*\),.*/\1/p')
sed "s/${version//./\\.}/${version//[0-9]/7}/g" "$rille" >old
chmod +x old
over -d cpu:1 -H old,a -e ''
ok "another version is reported" says "the coordinator is rille $version, the worker is rille ${version//[0-9]/7}"
ok "another version ends the program" [ "$code" != 0 ]
PATH=$dir/empty "$rille" launch --bind "$address" -H a -e '' 2>"$dir/err"
ok "a missing ssh is reported with the host" says "cannot run ssh to start it on a: No such file"
text=$(PATH=$dir/empty "$rille" -d cpu:1 --doctor)
ok ":doctor reports a missing ssh" grep -q '^ *ssh  *missing' <<<"$text"
ok ":doctor shows the path of ssh" grep -q "^ *ssh  *$dir/bin/ssh" <<<"$(PATH=$dir/bin "$rille" -d cpu:1 --doctor)"
go worker --join 'tcp://127.0.0.1:*'
ok "worker --join requires a port" ends 2 "its port must be a number"
over -H 'a,b c' -e ''
ok "an error in a host list has line and column" ends 2 "-H, character 5: only slots"
printf 'a\nb sluts=2\n' >"$dir/hosts"
over --hostfile "$dir/hosts" -e ''
ok "an error in a host file has file, line and column" ends 2 "hosts:2:3: only slots"
over --hostfile "$dir/nothing" -e ''
ok "a missing host file is refused" ends 2 "nothing: No such file"
over -H a --hostfile "$dir/hosts" -e ''
ok "two host lists are refused" ends 2 "expected -H HOSTS or --hostfile FILE, found both"
over -n 3 -H a:2 -e ''
ok "more workers than slots are refused" ends 2 "-n must be at most 2, the slots of the hosts, found 3"
over -H a:300 -e ''
ok "more workers than a job can have are refused" ends 2 "at most 256 workers"
go launch -H no.such.host.invalid -e ''
ok "a host name that does not resolve is reported" ends 2 'the host name "no.such.host.invalid" is unknown' "--bind"
go launch --bind tcp://10.255.255.254:5999 -H a -e ''
ok "an address that cannot be bound is an error" ends 2 "10.255.255.254"

finish
