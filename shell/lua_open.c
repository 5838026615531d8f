/* lua_open.c - plain Lua's way in: require "rille" loads rille.so, whose only visible name is luaopen_rille.
 *
 * The session is as the environment wants it and belongs to the thread that required the module; it ends with the Lua
 * state. Such a program has no Ctrl-C of ours and no global: the module is what require gives. */
#include "shell/shell.h"

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
