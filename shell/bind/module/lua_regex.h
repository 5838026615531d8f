/* lua_regex.h - adds rille._matches, which matches a regular expression. Only the thread that owns the Lua state calls
 * these functions. */
#ifndef RILLE_SHELL_BIND_MODULE_LUA_REGEX_H
#define RILLE_SHELL_BIND_MODULE_LUA_REGEX_H

#include "shell/bind/base/shell.h"

void regex_open(lua_State *L);

#endif
