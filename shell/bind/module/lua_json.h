/* lua_json.h - JSON as Lua values. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_MODULE_LUA_JSON_H
#define RILLE_SHELL_BIND_MODULE_LUA_JSON_H

#include "shell/bind/base/shell.h"

void json_open(lua_State *L);

#endif
