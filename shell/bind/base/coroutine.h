/* coroutine.h - autocast and recompute regions belong to the coroutine that entered them. Only the thread that owns
 * the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_BASE_COROUTINE_H
#define RILLE_SHELL_BIND_BASE_COROUTINE_H

#include "shell/bind/base/shell.h"

void coroutine_open(lua_State *L);

#endif
