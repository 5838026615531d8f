/* greet.c - a Lua module in C. Its non-static helpers have the same names as functions inside Rille. The linker must
 * not confuse the two. */
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
