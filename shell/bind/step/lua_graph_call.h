/* lua_graph_call.h - converts Lua arguments, and calls a compiled step with them. Main thread. */
#ifndef RILLE_SHELL_BIND_STEP_LUA_GRAPH_CALL_H
#define RILLE_SHELL_BIND_STEP_LUA_GRAPH_CALL_H

#include <lua.h>

/* Implement a call of the step. graph_run does not pad the arguments to buckets. */
int graph_call(lua_State *L);
int graph_run(lua_State *L);

#endif
