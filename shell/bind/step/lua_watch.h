/* lua_watch.h - finds uses of live numbers that a trace cannot record. Only the thread that owns the Lua state calls
 * these functions. */
#ifndef RILLE_SHELL_BIND_STEP_LUA_WATCH_H
#define RILLE_SHELL_BIND_STEP_LUA_WATCH_H

#include "shell/bind/base/shell.h"

/* Adds rille._watch and rille._watched to the module table at the top */
void watch_open(lua_State *L);

#endif
