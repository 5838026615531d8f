/* greet.c - a Lua module in C. Its non-static helpers have names of functions inside Rille, and must not collide with
 * them. */
#include <lauxlib.h>
#include <lua.h>

int fail(int code);
int tracing(const void *what);
int luaopen_greet(lua_State *L);

int
fail(int code)
{
    return code + 1000;
}

int
tracing(const void *what)
{
    return what ? 7 : 8;
}

int
luaopen_greet(lua_State *L)
{
    lua_pushinteger(L, fail(3) + tracing(L));
    return 1;
}
