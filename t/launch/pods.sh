#!/bin/bash
# Tests an indexed Job of Kubernetes whose pods are killed: pod 0, which runs the program, and pod 1, at four moments. A
# killed pod is started again under the same name, at another address. The training must end with the bits of an
# undisturbed one. There is no Kubernetes here: a pod is a network namespace with a host name, processes and shared
# memory of its own; a bridge connects the pods; a shared /etc/hosts is the DNS; and the function `controls` is the Job's
# controller. pods.sh path/to/rille. TAP.
rille=$(realpath "$1")
. t/lib/processes.sh
cp t/lib/steps/small.lua "$dir"
cd "$dir" || exit 2
hub=rille-p-$$
cleanup() {
  local ns
  for ns in $(ip netns list 2>/dev/null | grep -o "^$hub[^ ]*"); do
    ip netns pids "$ns" | xargs -r kill -9
    ip netns del "$ns"
  done 2>/dev/null
  rm -rf "$dir"
}
trap cleanup EXIT
if ! { ip netns add $hub && ip -n $hub link add bridge type bridge && ip -n $hub link set bridge up &&
  unshare -mupf --mount-proc true; } 2>/dev/null; then
  echo "1..0 # SKIP no namespaces can be made here"
  exit 0
fi
tell() { tail -n 8 out-* log 2>/dev/null; }

# The container's command. Its process becomes rille, process 1 of the pod.
cat >container.sh <<'SH'
mount --bind hosts /etc/hosts && mount -t tmpfs shm /dev/shm && hostname "rille-$JOB_COMPLETION_INDEX" || exit 99
export XDG_RUNTIME_DIR=$PWD/$1 TMPDIR=$PWD/$1
mkdir -p "$1"
until ip addr | grep -q 'inet 10.214'; do sleep 0.02; done
exec "$RILLE" --key-file key --keep 120 -d cpu:2 train.lua
SH

# Logs the number and the loss of each step, and the beginning of each snapshot.
cat >train.lua <<'LUA'
local net, opt, step, batch = dofile "small.lua"
local big = rille.rand({4, 1 << 19}, {placement = rille.placement("cpu", {0, 1, 2, 3}), sbp = "S(0)"})
local parts = {model = net, optimizer = opt}
local log = io.open("log", "a")
log:setvbuf("line")
local function snapshot(i)
  log:write("snapshot ", i, "\n")
  rille.snapshot{step = i}
end
log:write("begins\n")
local note = rille.train.resume(parts)
local i = note and note.step or 0
-- without a snapshot there is nothing to recover: the Job starts this pod again, and the other pod waits for it
if not pcall(snapshot, i) then os.exit(1) end
while i < 24 do
  local good, err = pcall(function()
    local loss = step(batch()):item()
    i = i + 1
    log:write(("%d %a\n"):format(i, loss))
    if i % 4 == 0 then snapshot(i) end
  end)
  if not good then
    if not rille.is_lost(err) then error(err, 0) end
    i = rille.recover().step
  end
end
LUA
losses() { grep '^[0-9]' log | sort -n -u; }

: >log
go -d cpu:4 train.lua
want=$(losses)
is "one process trains 24 steps" "$code $(wc -l <<<"$want")" "0 24"
"$rille" keys >key
export RILLE=$rille WORLD_SIZE=2 MASTER_ADDR=rille-0.rille MASTER_PORT=5555 RILLE_JOB=uid-of-the-job

# starts_pod INDEX: starts a pod at a new address. Sets ${pod[INDEX]} to the pid of its first process.
starts_pod() {
  local ns=$hub-$((++npod)) at=10.214.7.$((10 + npod))
  ip netns add $ns && ip -n $hub link add v$npod type veth peer name eth0 netns $ns && ip -n $hub link set v$npod master bridge up
  [ "$1" = 0 ] && echo "127.0.0.1 localhost
$at rille-0.rille" >hosts
  JOB_COMPLETION_INDEX=$1 ip netns exec $ns unshare -mupf --mount-proc --kill-child bash container.sh tmp-$npod >>out-$1 2>&1 </dev/null &
  pod[$1]=$!
  names[$1]=$ns
  ip -n $ns link set lo up && ip -n $ns addr add $at/24 dev eth0 && ip -n $ns link set eth0 up
}
kills_pod() { # kills_pod INDEX: ends all processes of a pod at once, and takes its address away
  ip -n ${names[$1]} link set eth0 down
  ip netns pids ${names[$1]} | xargs -r kill -9
  killed=$EPOCHREALTIME nkilled=$(grep -c '^[0-9]' log) recovered=
}
# controls BACKOFF: starts both pods, and starts a failed pod again, at most BACKOFF times per index
# (backoffLimitPerIndex). A pod that ends with 75 is started again without a limit (podFailurePolicy: Ignore). Ends when
# both pods have ended with 0, or one has failed too often. Sets $code.
controls() {
  local failures=(0 0) k left=2 end=$((SECONDS + hang))
  for k in 0 1; do starts_pod $k; done
  while [ $left -gt 0 ] && [ $SECONDS -lt $end ]; do
    for k in 0 1; do
      [ "${pod[k]}" != done ] && ! kill -0 ${pod[k]} 2>/dev/null || continue
      { wait ${pod[k]}; code=$?; } 2>/dev/null
      ip netns del ${names[k]}
      pod[k]=done
      [ $code = 0 ] && { left=$((left - 1)); continue; }
      [ $code = 75 ] || failures[k]=$((failures[k] + 1))
      [ ${failures[k]} -le "$1" ] || return
      starts_pod $k
    done
    strikes
    sleep 0.02
  done
}
# strikes: kills the pod $victim when the log has a line that begins with $moment, once. Then sets $recovered to the
# time until the next step, s.
strikes() {
  if [ -n "$victim" ]; then
    grep -q "^$moment" log || return
    kills_pod $victim
    victim=
  elif [ -z "$recovered" ] && [ $(grep -c '^[0-9]' log) -gt $nkilled ]; then
    recovered=$(bc <<<"$EPOCHREALTIME - $killed")
  fi
}

npod=0 i=0
while IFS='|' read -r name victim moment; do
  share $((3 * i++)) || continue # 3: every share has at most one case beside case 0
  : >log
  rm -f out-*
  who=$victim
  controls 1
  is "pod $who is killed $name: the job ends with the bits of an undisturbed training" "$code $(losses)" "0 $want"
  echo "# seconds from the kill to the next step: $recovered"
done <<'CASES'
at its start|0|begins
at its start|1|begins
in a step|0|6 
in a step|1|6 
in the first snapshot|0|snapshot 0
in the first snapshot|1|snapshot 0
in a later snapshot|0|snapshot 12
in a later snapshot|1|snapshot 12
CASES
finish
