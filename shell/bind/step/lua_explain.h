/* lua_explain.h - records of plans as Lua tables. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_STEP_LUA_EXPLAIN_H
#define RILLE_SHELL_BIND_STEP_LUA_EXPLAIN_H

#include "shell/bind/base/shell.h"

void explain_open(lua_State *L);
void explain_push(lua_State *L, struct rille_explain **e); /* pushes the record as a table; takes ownership of it */
/* pushes a table that prints as this text; takes ownership of the text */
void text_push(lua_State *L, char **text);
bool plan_physical(lua_State *L, int i); /* reads the option `physical` of plan() in the table at i */

#endif
