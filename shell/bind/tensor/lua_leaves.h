/* lua_leaves.h - functions that change several variables at once. Only the thread that owns the Lua state calls these
 * functions. */
#ifndef RILLE_SHELL_BIND_TENSOR_LUA_LEAVES_H
#define RILLE_SHELL_BIND_TENSOR_LUA_LEAVES_H

#include "shell/bind/base/shell.h"

void leaves_open(lua_State *L); /* adds functions that change several variables at once */

#endif
