/* lua_index.h - x[key] and x[key] = v for keys that are no names. Only the thread that owns the Lua state calls these
 * functions. */
#ifndef RILLE_SHELL_BIND_TENSOR_LUA_INDEX_H
#define RILLE_SHELL_BIND_TENSOR_LUA_INDEX_H

#include "shell/bind/base/shell.h"

int index_get(lua_State *L);
int index_set(lua_State *L);
int index_pairs(lua_State *L);
void index_open(lua_State *L); /* adds split and chunk to the methods */

#endif
