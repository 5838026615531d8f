/* lua_actors.h - the actors of a step. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_STEP_LUA_ACTORS_H
#define RILLE_SHELL_BIND_STEP_LUA_ACTORS_H

#include "shell/bind/base/shell.h"

/* pushes the actors of a step; NULL: of the plan that ran last */
void actors_push(lua_State *L, struct rille_graph *g);

#endif
