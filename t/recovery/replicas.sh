#!/bin/bash
# Tests rille.train.replicas. A bit flips in the replica of one host: the flip must be found, the host named, and the
# steps repeated. The results must have the bits of an undisturbed run.
rille=$(realpath "$1")
. t/lib/processes.sh
cp t/lib/damage.pl "$dir/"
cd "$dir" || exit 1

# Trains. All elements of w are equal, so that damage.pl finds the value. They stay between 32 and 64, so that no
# rounding hides a flip. After step 6 flips a bit in the replica of rank arg[1] (negative: in no replica), arg[2]
# times.
cat >train.lua <<'LUA'
local victim, times = tonumber(arg[1]), tonumber(arg[2])
local ranks = {}
for _, w in ipairs(rille.workers()) do ranks[#ranks + 1] = w.rank end
local P = rille.placement("cpu", ranks)
local w = rille.nn.Parameter(rille.full({1 << 12}, 62, {placement = P, sbp = "B"}))
local opt = rille.optim.SGD({w}, {lr = 0.125})
local guard = rille.train.replicas{every = 4}
local i, done = 1, 0
while i <= 12 do
  (w * i):sum():backward()
  opt:step()
  opt:zero_grad()
  done = done + 1
  if i == 6 and times > 0 and victim >= 0 then
    times = times - 1
    local value = ("%.9g"):format(w[1]:item())
    local pipe = io.popen(("perl damage.pl %d %s"):format(rille.workers()[victim + 1].pid, value))
    assert(pipe:read("l") == "damaged")
  end
  i = guard:after(i)
end
print(done, ("%a"):format(w:sum():item()))
LUA

for hosts in 2 3; do
  RILLE_HOSTS=$hosts go launch -n $hosts -d cpu:1 train.lua -1 0
  want=${stdout#*	}
  is "$hosts hosts: undisturbed steps are done once" "$code ${stdout%	*} $(grep -c replicas err)" "0 12 0"
  for ((victim = 0; victim < hosts; victim++)); do
    RILLE_HOSTS=$hosts go launch -n $hosts -d cpu:1 train.lua $victim 1
    is "$hosts hosts: a flipped bit on host $victim changes no result, and four steps are repeated" "$code $stdout" "0 16	$want"
    ok "$hosts hosts: the host is named" [ "$(grep -c "wrong bits were computed by cpu:$victim (worker $victim, " err)" = 1 ]
    [ $hosts = 2 ] || ok "three hosts: the host is named at once" says "differ: cpu:$victim (worker $victim, "
    says "repeats steps 5 to 8" || ok "the repeated steps are named" false
  done
done
RILLE_HOSTS=2 go launch -n 2 -d cpu:1 train.lua 1 2
ok "replicas that differ twice after the same steps end the program" ends 1 "the replicas of a variable f32{4096} differ"
finish
