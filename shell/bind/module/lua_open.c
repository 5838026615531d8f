/* lua_open.c - entry point for plain Lua: require "rille" loads rille.so, whose only visible symbol is
 * luaopen_rille.
 *
 * The session is configured by environment variables, belongs to the thread that called require, and ends with the
 * Lua state. In plain Lua, Rille neither handles Ctrl-C nor sets a global: the module is the result of require. */
#include "shell/bind/base/environment.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/module/lua_rille.h"

#include <string.h>

__attribute__((visibility("default"))) int luaopen_rille(lua_State *L);

int
luaopen_rille(lua_State *L)
{
    struct environment e;
    luaL_checkversion(L);
    if (environment_read(&e)) return luaL_error(L, "rille: %s", e.error);
    if (shell_open(L, &e)) return luaL_error(L, "rille: %s", rille_error());
    return 1;
}
