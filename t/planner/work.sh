#!/bin/bash
# work.sh path/to/rille - tests that a search ends by its count of work (sbp/net/work.h), not by the clock.
#
# Certificates must be equal on machines of any speed, and while other processes compute. Only on a far slower machine
# may the clock end the search.
. t/lib/tap.sh
rille=$(realpath "$1")

# Simulates a machine SPEED times as slow: multiplies the CPU time of threads by SPEED.
cat >"$dir/slow.c" <<'C'
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int read_clock(clockid_t id, struct timespec *t) __asm__("clock_gettime");
int
read_clock(clockid_t id, struct timespec *t)
{
    int status = (int)syscall(SYS_clock_gettime, id, t);
    if (id != CLOCK_THREAD_CPUTIME_ID) return status;
    double ns = atof(getenv("SPEED")) * ((double)t->tv_sec * 1e9 + (double)t->tv_nsec);
    t->tv_sec = (time_t)(ns / 1e9);
    t->tv_nsec = (long)(ns - (double)t->tv_sec * 1e9);
    return status;
}
C

# Writes certificates of each program in each mode, with several time limits, with and without a memory limit.
cat >"$dir/plan.lua" <<'LUA'
local rille = require "rille"
local tap = dofile("t/lib/tap.lua")
local nn, optim = rille.nn, rille.optim
local P = rille.placement("cpu", {{0, 1}, {2, 3}})
local function blocks(n)
  local b = {}
  for i = 1, n do b[i] = nn.TransformerBlock(32, 4, {is_causal = true}) end
  return nn.Sequential(table.unpack(b)), {8, 16, 32}
end
local programs = {
  mlp = function() return nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 16)), {24, 16} end,
  block = function() return blocks(1) end,
  blocks = function() return blocks(3) end,
}
local function plan(name, mode, limit, memory)
  if not tap.share() then return end
  rille.manual_seed(1)
  local net, shape = programs[name]()
  net:to_global{placement = P, sbp = "auto"}
  local opt = optim.AdamW(net:parameters(), {lr = 1e-3})
  local step = rille.graph(function(x)
    local loss = net(x):square():mean()
    loss:backward(); opt:step(); opt:zero_grad()
    return loss
  end, {auto_parallel = mode, time_limit = limit, memory_limit = memory})
  local good, why = pcall(step, rille.ones(shape, {placement = P, sbp = {"S(0)", "B"}}))
  local file = ("%s/%s-%s-%s-%s"):format(arg[1], name, mode, limit or "default", memory or "any")
  if good then return step:certify(file) end
  local f = io.open(file, "w")
  f:write(why); f:close()
end
for _, name in ipairs{"mlp", "block", "blocks"} do
  for _, mode in ipairs{"greedy", "propagate", "recursive", "optimal"} do
    for _, limit in ipairs{0.01, 0.05} do plan(name, mode, limit) end
  end
  plan(name, "optimal")
  if name ~= "blocks" then plan(name, "optimal", 0.05, name == "mlp" and 16000 or 200000) end
end
LUA

cc -shared -fPIC -O1 -o "$dir/slow.so" "$dir/slow.c" || exit 1
plans() { # plans SPEED: writes certificates to the folder SPEED
  mkdir "$dir/$1"
  SPEED=$1 LD_PRELOAD="$dir/slow.so" ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0" \
    timeout -s KILL $hang "$rille" -d cpu:4 "$dir/plan.lua" "$dir/$1"
}
ok "a clock that stands still" plans 0
ok "a slow clock" plans 0.01
busy=()
for k in 1 2 3; do
  while :; do :; done &
  busy+=($!)
done
ok "a clock of speed 0.1, beside processes that compute" plans 0.1
kill "${busy[@]}"
wait "${busy[@]}" 2>/dev/null

ok "plans are written" test "$(find "$dir/0" -type f | wc -l)" = 29 -o "${SHARE:-all}" != all
for file in "$dir/0"/*; do
  name=${file##*/}
  for speed in 0.01 0.1; do ok "$name is equal with clock speed $speed" cmp "$file" "$dir/$speed/$name"; done
done

ok "a clock too fast for any search" plans 100000
for file in "$dir/100000"/*; do
  if grep -q 'no plan found' "$file"; then continue; fi
  ok "${file##*/} is a valid certificate" "$rille" verify "$file"
done
finish
