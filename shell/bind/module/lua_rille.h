/* lua_rille.h - the module rille: opens the session, and waits for work at the end. Only the thread that owns the Lua
 * state calls these functions. */
#ifndef RILLE_SHELL_BIND_MODULE_LUA_RILLE_H
#define RILLE_SHELL_BIND_MODULE_LUA_RILLE_H

#include "shell/bind/base/shell.h"

/* Opens the session, pushes the module, and registers it for require. If the core fails, pushes nothing and returns
 * its error code; rille_error() says why. */
int shell_open(lua_State *L, const struct environment *e);
/* Waits for saves and runs in progress, and raises their errors. Does nothing in a child made by fork(). */
void shell_finish(lua_State *L);

#endif
