#!/bin/bash
# explain-starved.sh path/to/rille - makes memory run out while Lua builds the table of explain()
# (shell/bind/step/lua_explain.c). The failure must be an ordinary error; garbage collection and the step must still
# work afterwards.
. t/lib/tap.sh
rille=$(realpath "$1")

# A preloaded library that makes allocations fail. When garbage collection is stopped for the k-th time, the next 2^(k
# - 1) allocations succeed and the two after them fail. Lua retries a failed allocation once, so two failures cause
# one error.
cat >"$dir/starve.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <lua.h>
#include <stdarg.h>
#include <stdlib.h>
static lua_Alloc allocate;
static long more = 1, left;
static void *
starve(void *with, void *block, size_t old, size_t size)
{
    if (size && (!block || size > old) && left-- <= 0) {
        if (left >= -2) return NULL;
        left = 1L << 40;
    }
    return allocate(with, block, old, size);
}
int
lua_gc(lua_State *L, int what, ...)
{
    int a[3];
    va_list list;
    void *with;
    int (*real)(lua_State *, int, ...);
    *(void **)&real = dlsym(RTLD_NEXT, "lua_gc");
    va_start(list, what);
    for (int i = 0; i < 3; i++) a[i] = va_arg(list, int);
    va_end(list);
    if (what == LUA_GCSTOP) {
        lua_Alloc now = lua_getallocf(L, &with);
        if (now != starve) allocate = now;
        left = more;
        more *= 2;
        lua_setallocf(L, starve, with);
    } else if (what == LUA_GCRESTART) {
        left = 1L << 40;
    }
    return real(L, what, a[0], a[1], a[2]);
}
C

cat >"$dir/explain.lua" <<'LUA'
local rille = require "rille"
local P = rille.placement("cpu", {0, 1})
local w = rille.randn({8, 8}, {placement = P, sbp = "auto"})
local step = rille.graph(function(x) return x:matmul(w):relu():sum() end, {auto_parallel = true})
step(rille.ones({4, 8}, {placement = P, sbp = "S(0)"}))
local function far() return rille.whatif(step, {mesh = {8}}) end
local function each() return rille.whatif(step, {mesh = {8}, memory = {1e9, 2e9}}) end
for name, look in pairs{explain = function() return step:explain() end, whatif = far, each = each} do
  local failed, running, good, why = 0, 0, nil, nil
  for _ = 1, 40 do
    good, why = pcall(look)
    running = running + (collectgarbage("isrunning") and 1 or 0)
    if good then break end
    failed = failed + (tostring(why):match("not enough memory") and 1 or 0)
  end
  print(name, failed, good and running == failed + 1 and "well" or why)
end
LUA

flags=$(pkg-config --cflags lua5.4 2>/dev/null || pkg-config --cflags lua) || flags=
cc -shared -fPIC -O1 $flags -o "$dir/starve.so" "$dir/starve.c" || exit 1
LD_PRELOAD="$dir/starve.so" ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0" "$rille" -d cpu:2 "$dir/explain.lua" \
  >"$dir/out" 2>&1
tell() { cat "$dir/out"; }
ok "each of the three calls succeeds in the end" test "$(grep -c 'well$' "$dir/out")" = 3
ok "the calls failed in many places first" test "$(awk '{n += $2} END {print n}' "$dir/out")" -ge 8
finish
