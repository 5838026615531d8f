#!/bin/bash
# wakes.sh path/to/rille - tests that events, not timers, wake every thread that waits in a controller or worker.
# Runs, reads and file operations must end although poll() and ppoll() ignore timeouts. (A timer ticks every 0.1 s, so
# a missing wake-up would otherwise cost only that time.) TAP.
rille=$(realpath "$1")
. t/lib/processes.sh

cat >"$dir/patient.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static int
is_patient(void)
{
    return !access(getenv("PATIENT"), F_OK);
}

int
poll(struct pollfd *fd, nfds_t n, int ms)
{
    int (*real)(struct pollfd *, nfds_t, int);
    *(void **)&real = dlsym(RTLD_NEXT, "poll");
    return real(fd, n, n && ms > 0 && is_patient() ? -1 : ms);
}

/* Timeouts of up to 10 ms stay: short waits are retries, not ticks. */
int
ppoll(struct pollfd *fd, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
    int (*real)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
    *(void **)&real = dlsym(RTLD_NEXT, "ppoll");
    return real(fd, n, t && t->tv_nsec > 10000000 && is_patient() ? NULL : t, mask);
}
C
cc -shared -fPIC -O1 -o "$dir/patient.so" "$dir/patient.c" || exit 1
patient() { # patient ARGUMENTS: runs rille with these arguments; kills it if it does not end in time
  PATIENT="$dir/patient" LD_PRELOAD="$dir/patient.so" ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0" \
    timeout -k 5 ${SECONDS_AT_MOST:-$hang} "$rille" "$@" >"$dir/out" 2>"$dir/err" </dev/null
  code=$? stdout=$(cat "$dir/out")
}

cat >"$dir/runs.lua" <<'LUA'
local n = #rille.workers()
local _ = (rille.zeros{1} + 1):sum():item()
assert(io.open(arg[2], "w")):close()
local ranks = {}
for i = 1, n do ranks[i] = i - 1 end
local P = rille.placement("cpu", ranks)
local x = rille.ones({16, 8}, {placement = P, sbp = "S(0)"})
for _ = 1, 500 do assert((x * 2):sum():item() == 256) end
for k = 1, 100 do assert((rille.full({4, k}, 2, {placement = P, sbp = "S(0)"}) * 2):sum():item() == 16 * k) end
for k = 1, 40 do
  rille.save(arg[1], {x = x * k})
  assert(rille.load(arg[1], {placement = P, sbp = "S(0)"}).x:sum():item() == 128 * k)
end
os.remove(arg[2])
print("done")
LUA
for shape in "1 1" "2 1" "3 1" "2 2" "4 2"; do
  read -r workers hosts <<<"$shape"
  RILLE_HOSTS=$hosts patient launch -n "$workers" -d cpu:1 "$dir/runs.lua" "$dir/x.safetensors" "$dir/patient"
  is "$workers workers of $hosts hosts: 600 runs, 40 files" "$code $stdout" "0 done"
done
finish
