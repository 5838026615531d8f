/* lua_live.h - live numbers. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_STEP_LUA_LIVE_H
#define RILLE_SHELL_BIND_STEP_LUA_LIVE_H

#include "shell/bind/base/shell.h"

void live_open(lua_State *L);
/* Adds `more` to an integer field of the table at i, and returns the sum; the key is at i + 1. Runs no Lua code. */
lua_Integer count_field(lua_State *L, int i, int more);

#endif
