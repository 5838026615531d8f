/* lua_workers.h - worker processes. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_MODULE_LUA_WORKERS_H
#define RILLE_SHELL_BIND_MODULE_LUA_WORKERS_H

#include "shell/bind/base/shell.h"

void workers_open(lua_State *L); /* adds functions to the module table at the top */

#endif
