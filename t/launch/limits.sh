#!/bin/bash
# limits.sh path/to/rille - tests that the program keeps within the limits of its environment: control groups, ulimit
# -v, OMP_NUM_THREADS. If memory runs out, the system must end workers before the controller. Also tests how threads
# wait.
#
# The program is loaded with a library that replaces its own control group by a folder of this test.
rille=$(realpath "$1")
. t/lib/processes.sh
unset OMP_NUM_THREADS OMP_WAIT_POLICY
export RILLE_THREADS=2 # two device threads in each worker, whatever the number of cores

# ---- threads ----

fact() { sed -nE "s/^ *$1  +//p" "$dir/out"; }
OMP_NUM_THREADS=1 go -d cpu:1 --doctor
ok "--doctor shows what limits the cores" grep -qE '^1 \((OMP_NUM_THREADS|affinity|the machine.s cores|/.*)\)' <<<"$(fact 'core limit')"
ok "--doctor shows the memory limit" grep -qE '^[0-9.]+ GiB \(' <<<"$(fact 'memory limit')"

waiting='for line in io.lines("/proc/self/environ") do print((line:gsub("%z", "\n"))) end'
spin() { env -u GOMP_SPINCOUNT "$@" "$rille" -d cpu:1 -e "$waiting" 2>"$dir/err" | grep -E '^(GOMP_SPINCOUNT|OMP_WAIT_POLICY)=' | paste -sd' '; }
ok "waiting threads of oneDNN sleep" [ "$(spin)" = OMP_WAIT_POLICY=passive ]
ok "the user's spin count is kept" [ "$(spin GOMP_SPINCOUNT=7)" = GOMP_SPINCOUNT=7 ]
ok "the user's wait policy is kept" [ "$(spin OMP_WAIT_POLICY=passive)" = OMP_WAIT_POLICY=passive ]

# ---- workers are killed before the controller when memory runs out ----

own=$(cat /proc/self/oom_score_adj)
cat >"$dir/score.lua" <<'L'
local rille = require "rille"
for _, pid in ipairs{"self", rille.workers()[1].pid} do print(io.open("/proc/" .. pid .. "/oom_score_adj"):read()) end
L
go launch -n 1 -d cpu:1 "$dir/score.lua"
ok "the kernel ends a worker before the controller" [ "$stdout" = "$own"$'\n'$((own + 300 < 1000 ? own + 300 : 1000)) ]

# skips the rest under a sanitizer, because sanitizers reserve much address space and replace malloc
case ${ASAN_OPTIONS+asan}${TSAN_OPTIONS+tsan} in ?*) finish; exit ;; esac

across='local x = rille.ones({4, 4}, {placement = rille.placement("cpu", {0, 1}), sbp = "S(0)"}) print(x:sum():item())'

# ---- threads that the system refuses ----

# With each limit from one process to the first that is enough, the program must end with an error. ZeroMQ would end the
# process if it could not start a thread. The kernel does not limit root's processes.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  chmod 777 "$dir"
  few() { # few USER LIMIT OPTION...: runs the program as a user without other processes
    local user=$1 limit=$2
    shift 2
    XDG_RUNTIME_DIR= OMP_NUM_THREADS=1 timeout -k 5 $hang setpriv --reuid=$user --regid=$user --clear-groups bash -c \
      "ulimit -u $limit; exec \"\$0\" \"\$@\"" "$rille" "$@" >"$dir/out" 2>"$dir/err"
    code=$?
  }
  user=$((1000000 + $$ * 4 % 1000000000))
  for how in "-d cpu:2" "launch -n 1 -d cpu:2"; do
    bad= named=0
    for ((limit = 1; limit < 40; limit++)); do
      few $((user++)) $limit $how -e "$across"
      [ "$code $(cat "$dir/out")" = "0 16.0" ] && break
      [ $code -gt 0 -a $code -le 3 ] && ! grep -qE 'thread.cpp|killed' "$dir/err" || bad+="$limit: $code $(cat "$dir/err")"
      grep -q 'thread could not be started: .*ulimit -u' "$dir/err" && named=1
    done
    is "$how: with too few threads the program ends with an error" "$bad" ""
    ok "$how: an error names the limit, and $limit threads are enough" [ $named = 1 -a $limit -gt 1 -a $limit -lt 40 ]
  done
else
  skip "with too few threads the program ends with an error" "only root can become a user without processes"
fi

# ---- open files that the system refuses ----

while read -r first last how; do
  bad= named=0
  for ((limit = first; limit <= last; limit++)); do
    bash -c 'ulimit -n $0; exec "$@"' $limit timeout -k 5 $hang "$rille" $how -e "$across" >"$dir/out" 2>"$dir/err" </dev/null
    code=$?
    [ "$code $(cat "$dir/out")" = "0 16.0" ] && continue
    [ $code = 1 -o $code = 2 ] && grep -qiE 'open files|not be' "$dir/err" || bad+="$limit: $code $(cat "$dir/err")"
    grep -q 'ulimit -' "$dir/err" && named=1
  done
  is "$how: with too few descriptors the program ends with an error, which names the limit" "$named $bad" "1 "
done <<'ROWS'
4 24 -d cpu:2
4 9 launch -n 2 -d cpu:1
ROWS

# ---- address space ----

sum='local x = rille.ones({1000}, {placement = rille.placement("cpu", {0, 1}), sbp = "S(0)"}) print(x:sum():item())'
(ulimit -v 4000000; go launch -n 2 -d cpu:1 -e "$sum"; cp "$dir/out" "$dir/sum"; exit $code)
ok "ulimit -v below the machine's memory costs no start" [ $? = 0 -a "$(cat "$dir/sum")" = 1000.0 ]
large='print(pcall(function() return rille.ones({100, 1000000}, {placement = rille.placement("cpu", {0, 1}), sbp = "S(0)"}):sum():item() end))'
(ulimit -f 200000; go launch -n 2 -d cpu:1 -e "$sum $large"; cp "$dir/out" "$dir/sum"; exit $code) # 200,000 KiB
ok "ulimit -f below the machine's memory costs no start" [ $? = 0 -a "$(head -1 "$dir/sum")" = 1000.0 ]
ok "an allocation beyond ulimit -f is an error that names the limit" grep -q '^false.*out of memory.*file size limit of 204.8 MB (ulimit -f)' "$dir/sum"

# ---- memory of a control group ----

cat >"$dir/group.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

FILE *
fopen(const char *path, const char *mode)
{
    static FILE *(*real)(const char *, const char *);
    char other[4096];
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "fopen");
    if (!strcmp(path, "/proc/self/cgroup") || !strcmp(path, "/proc/self/mountinfo") || !strncmp(path, "/group/", 7)) {
        snprintf(other, sizeof other, "%s%s", getenv("GROUP_ROOT"), path);
        path = other;
    }
    return real(path, mode);
}
C
cc -shared -fPIC -o "$dir/group.so" "$dir/group.c" -ldl || exit
mkdir -p "$dir/proc/self" "$dir/group/job"
echo 0::/job >"$dir/proc/self/cgroup"
echo '31 23 0:30 / /group rw - cgroup2 cgroup rw' >"$dir/proc/self/mountinfo"
echo 400000000 >"$dir/group/job/memory.max"
echo 50000000 >"$dir/group/job/memory.current"
echo '100000 100000' >"$dir/group/job/cpu.max"
limited() { GROUP_ROOT=$dir LD_PRELOAD=$dir/group.so go "$@"; }

limited -d cpu:1 --doctor
ok "--doctor shows the group's memory" grep -qF '0.4 GiB (/group/job/memory.max)' <<<"$(fact 'memory limit')"
ok "--doctor shows the group's cores" grep -qE '^1 \((/group/job/cpu.max|affinity|the machine.s cores)\)' <<<"$(fact 'core limit')"
# fills N: makes N tensors of 40 MB, and keeps them
fills='local kept = {} for k = 1, tonumber(arg[1]) do kept[k] = rille.ones{10000000} kept[k]:sum():item() end print "fits"'
echo "$fills" >"$dir/fill.lua"
for how in "-d cpu:1" "launch -n 2 -d cpu:1"; do
  limited $how "$dir/fill.lua" 4
  ok "$how: memory below the group's limit is used" [ "$code" = 0 -a "$stdout" = fits ]
  # simulates other processes in the group, which use 350 MB of its memory
  echo 350000000 >"$dir/group/job/memory.current"
  limited $how "$dir/fill.lua" 4
  ok "$how: an allocation beyond the group's limit is an error that names the limit" \
    ends 1 "fill.lua:1:" "out of memory on cpu:0" "memory limit of 400.0 MB (/group/job/memory.max)"
  echo 50000000 >"$dir/group/job/memory.current"
done
limited -d cpu:1 "$dir/fill.lua" 20
ok "one process allocates at most the limit" ends 1 "out of memory on cpu:0" "/group/job/memory.max"
finish
