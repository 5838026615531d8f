#!/bin/bash
# states.sh path/to/rille - tests that several Lua states of one process each use their own session: while one, two or
# three states exist, after any of them was closed, in coroutines, and when the process ends with open states.
build=$(dirname "$(realpath "$1")")
. t/lib/tap.sh

if [ ! -e "$build/lua/rille.so" ] || grep -q 'RILLE_SANITIZE:STRING=.' "$build/CMakeCache.txt"; then
  skip "states compute" "Lua's rille.so is not built, or needs a sanitizer's runtime"
  finish
fi

# Each state counts in a tensor of its own session. A call that reached the session of another state would fail,
# because it would not know this tensor.
cat >"$dir/states.c" <<'C'
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
enum { STATES = 3 };
static lua_State *state[STATES];

static void run(int i, const char *text)
{
    if (!luaL_dostring(state[i], text)) return;
    printf("state %d: %s\n", i, lua_tostring(state[i], -1));
    exit(1);
}

static void open_state(int i)
{
    state[i] = luaL_newstate();
    luaL_openlibs(state[i]);
    run(i, "early = coroutine.create(function(x) while true do x = coroutine.yield((x + 1):item()) end end) "
           "package.cpath = os.getenv 'RILLE_SO' rille = require 'rille' n, x = 1, rille.ones{1}");
}

static void close_state(int i)
{
    lua_close(state[i]);
    state[i] = NULL;
}

static void count(void)
{
    for (int i = 0; i < STATES; i++)
        if (state[i])
            run(i, "n, x = n + 1, x + 1 assert(x:item() == n and rille.counters().live_values < 100) "
                   "assert(select(2, coroutine.resume(early, x)) == n + 1)");
}

/* Opens three states, then closes state a, then state b, then the third. */
static void order(int a, int b)
{
    for (int i = 0; i < STATES; i++) {
        open_state(i);
        count();
    }
    close_state(a);
    count();
    close_state(b);
    count();
    close_state(STATES - a - b);
}

int main(void)
{
    for (int a = 0; a < STATES; a++)
        for (int b = 0; b < STATES; b++)
            if (a != b) order(a, b);
    open_state(0);
    open_state(1);
    count();
    run(1, "os.exit(0)");
}
C
cc -std=gnu11 -o "$dir/states" "$dir/states.c" $(pkg-config --cflags --libs lua5.4)
ok "a program with several Lua states is built" [ $? = 0 ]
ok "each state computes in its own session, whichever state was closed before" \
  timeout $hang env RILLE_SO="$build/lua/?.so" RILLE_DEVICES=cpu:1 "$dir/states"
finish
