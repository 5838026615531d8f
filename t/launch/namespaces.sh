#!/bin/bash
# Uses two network namespaces, joined by a virtual cable, as two hosts. Their workers must give the same bits as one
# process, also over a slow cable. If the cable is cut, or works in one direction only, the running line must fail
# with an error, and lost values must be restored.
rille=$1
. t/lib/tap.sh
a=rille-a-$$ b=rille-b-$$
cleanup() {
  for ns in $a $b; do
    ip netns pids $ns 2>/dev/null | xargs -r kill -9 2>/dev/null
    ip netns del $ns 2>/dev/null
  done
  rm -rf "$dir"
}
trap cleanup EXIT
unset RILLE_SEED RILLE_TRACE RILLE_BUS RILLE_THREADS RILLE_DEVICES RILLE_HOSTS
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT ${!SLURM_*} ${!OMPI_*} ${!PMI_*} JOB_COMPLETION_INDEX
root=$PWD
if ! { ip netns add $a && ip netns add $b && ip link add va netns $a type veth peer name vb netns $b; } 2>/dev/null; then
  echo "1..0 # SKIP no network namespaces can be made here"
  exit 0
fi
ip -n $a addr add 10.213.7.1/24 dev va && ip -n $b addr add 10.213.7.2/24 dev vb
six=$(ip -n $a addr add fd00:213::1/64 dev va nodad 2>/dev/null && ip -n $b addr add fd00:213::2/64 dev vb nodad 2>/dev/null && echo 1)
at=10.213.7.1
for ns in $a $b; do ip -n $ns link set lo up; done
ip -n $a link set va up && ip -n $b link set vb up
"$rille" keys >"$dir/key"

tell() { head -5 "$dir/err"; }
port=5000
worker() { # worker NAMESPACE RANK ARGUMENTS...: starts a worker in the namespace
  local ns=$1 rank=$2
  shift 2
  ip netns exec $ns "$rille" worker --join tcp://$at:$port --key-file "$dir/key" --rank $rank -d cpu:1 "$@" \
    >>"$dir/worker" 2>&1 &
}
go() { # go ARGUMENTS...: runs with four workers, two in each namespace
  port=$((port + 1))
  for rank in 0 1; do worker $a $rank; done
  for rank in 2 3; do worker $b $rank --host b; done
  port=$port stops=${stops:-} ip netns exec $a timeout -k 5 $hang "$rille" coordinator --bind tcp://$at:$port --world 4 \
    --key-file "$dir/key" "$@" >"$dir/out" 2>"$dir/err" </dev/null
  code=$? stdout=$(cat "$dir/out")
  ip netns pids $b | xargs -r kill -CONT 2>/dev/null # wakes stopped workers, so that they notice the end of the job
  wait
}

# ---- the same bits ----

digits() { # digits COMMAND... LAYOUT: prints the losses of 5 steps in hex
  rm -f "$dir/log"
  "${@:1:$#-1}" "$root/examples/digits.lua" --steps 5 --log "$dir/log" --layout "${!#}" >"$dir/out" 2>"$dir/err"
  cat "$dir/log"
}
one() { timeout $hang "$rille" -d cpu:4 "$@"; }
for layout in dp-tp pp; do
  want=$(digits one $layout)
  ok "$layout on two hosts gives the bits of one process" [ -n "$want" -a "$want" = "$(digits go $layout)" ]
done
ranked() { # ranked ...: starts workers by the environment variables of torchrun, on two hosts
  local rank
  port=$((port + 1))
  export WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=${MASTER:-10.213.7.1} MASTER_PORT=$port
  for rank in 1 2 3; do
    RANK=$rank ip netns exec $([ $rank = 1 ] && echo $a || echo $b) "$rille" --key-file "$dir/key" -d cpu:1 \
      $([ $rank = 1 ] || echo --host b) "$@" >>"$dir/worker" 2>&1 &
  done
  RANK=0 ip netns exec $a timeout -k 5 $hang "$rille" --key-file "$dir/key" -d cpu:1 "$@" >"$dir/out" 2>"$dir/err"
  wait
  unset WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
}
ok "workers started by a launcher's variables give the same bits" [ "$(digits ranked pp)" = "$want" ]
mkdir "$dir/bin"
cat >"$dir/bin/ssh" <<SSH
#!/bin/bash
[[ "\${*: -2:1}" = 10.213.7.2 || "\${*: -2:1}" = fd00:213::2 ]] && exec ip netns exec $b bash -c "\${*: -1} --host b"
SSH
chmod +x "$dir/bin/ssh"
# launch ...: starts workers by launch -H, which finds an address of this host that the other namespace can reach
launch() {
  PATH=$dir/bin:$PATH ip netns exec $a timeout -k 5 $hang "$rille" launch -H "localhost:2,${there:-10.213.7.2}:2" -d cpu:1 "$@"
}
ok "workers started by ssh give the same bits" [ "$(digits launch pp)" = "$want" ]
if [ -n "$six" ]; then
  at=[fd00:213::1]
  ok "workers over IPv6 give the same bits" [ "$(digits go pp)" = "$want" ]
  at=10.213.7.1
  there=[fd00:213::2]
  ok "workers started by ssh over IPv6 give the same bits" [ "$(digits launch pp)" = "$want" ]
  there=
  ok "workers started by a launcher's variables over IPv6 give the same bits" [ "$(MASTER=fd00:213::1 digits ranked pp)" = "$want" ]
else
  skip "workers over IPv6 give the same bits" "the kernel has none"
fi
if ip netns exec $a tc qdisc add dev va root tbf rate 50mbit burst 16kb latency 400ms 2>/dev/null; then
  ok "workers over a slow cable give the same bits" [ "$(digits go pp)" = "$want" ]
  ip netns exec $a tc qdisc del dev va root
else
  skip "workers over a slow cable give the same bits" "the kernel has no tbf"
fi
if ip netns exec $a tc qdisc add dev va root netem delay 5ms loss 2% 2>/dev/null; then
  ok "workers over a cable with delay and packet loss give the same bits" [ "$(digits go pp)" = "$want" ]
  ip netns exec $a tc qdisc del dev va root
else
  skip "workers over a cable with delay and packet loss give the same bits" "the kernel has no netem"
fi

# ---- cables that fail ----

# Runs nine steps. The cable fails after the fourth. Prints the last loss of each step.
cp "$root/t/lib/steps/small.lua" "$dir/"
cat >"$dir/train.lua" <<'LUA'
local _, _, step, batch = dofile((arg[0]:match(".*/") or "") .. "small.lua")
local seen, i = {}, 0
rille.snapshot{step = 0}
while i < 9 do
  local began = os.time()
  local good, err = pcall(function()
    if i == 4 and arg[1] then os.execute(arg[1]); arg[1] = nil end
    local loss = step(batch()):item()
    i = i + 1
    seen[i] = ("%a"):format(loss)
    if i % 2 == 0 then rille.snapshot{step = i} end
  end)
  if not good then
    assert(rille.is_lost(err), err)
    local alive = 0
    for _, w in ipairs(rille.workers()) do alive = alive + (w.host ~= "b" and w.state ~= "lost" and 1 or 0) end
    io.stderr:write(err, "\n", ("%d alive, %s\n"):format(alive, os.time() - began <= 5 and "soon" or "late"))
    os.execute(arg[2] .. " " .. io.open("/proc/self/stat"):read("n"))
    i = rille.recover().step
  end
end
for k = 1, 9 do print(seen[k]) end
LUA
want=$(cd "$dir" && one train.lua)
cat >"$dir/mend" <<LUA
#!/bin/bash
# mend CONTROLLER_PID: repairs the cable and starts new workers
[ -z "\$stops" ] || ip netns pids $b | xargs kill -STOP
ip -n $a link set va up
ip -n $a route del blackhole 10.213.7.2 2>/dev/null
# retries as long as the controller lives, because the controller rejects workers before recover() is called
for rank in 2 3; do
  (while kill -0 \$1 2>/dev/null; do
    ip netns exec $b "$rille" worker --join tcp://10.213.7.1:\$port --key-file "$dir/key" --rank \$rank \
      -d cpu:1 --host b --wait 2 && break
    sleep 0.5
  done) >>"$dir/worker" 2>&1 &
done
LUA
chmod +x "$dir/mend"
says() { local t; for t; do grep -qE -e "$t" "$dir/err" || return 1; done; }
for how in "is cut:ip -n $a link set va down" "works in one direction:ip -n $a route add blackhole 10.213.7.2" \
  "is intact while the other end stops:ip netns pids $b | xargs kill -STOP"; do
  go "$dir/train.lua" "${how#*:}" "$dir/mend"
  ok "a cable that ${how%%:*} causes the loss of a worker there" says 'train.lua:8: worker [23] \(b, pid [0-9]*\)'
  ok "the loss is reported soon, and the other workers are alive" says '2 alive, soon'
  ok "new workers continue with the same bits" [ -n "$want" -a "$code $stdout" = "0 $want" ]
done
stops=1 go "$dir/train.lua" "kill -STOP \$(ip netns pids $b | head -1)" "$dir/mend"
is "if a second worker stops while the first is replaced, both are replaced with the same bits" \
  "$code $stdout" "0 $want"
# left: prints a line for each process that is left: its state, the kernel function in which it waits, its command
left() {
  local p
  for p in $(ip netns pids $a; ip netns pids $b); do
    printf '%s %s %s\n' "$(cut -d ' ' -f 3 /proc/$p/stat)" "$(cat /proc/$p/wchan)" "$(tr '\0' ' ' </proc/$p/cmdline)"
  done 2>/dev/null
}
none_left() { [ -z "$(left)" ]; }
await none_left
is "no process is left" "$(left)" ""

finish
