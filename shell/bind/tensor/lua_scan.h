/* lua_scan.h - the function rille.scan. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_TENSOR_LUA_SCAN_H
#define RILLE_SHELL_BIND_TENSOR_LUA_SCAN_H

#include "shell/bind/base/shell.h"

void scan_open(lua_State *L); /* adds a function to the module table at the top */

#endif
