/* lua_file.h - files of tensors. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_MODULE_LUA_FILE_H
#define RILLE_SHELL_BIND_MODULE_LUA_FILE_H

#include "shell/bind/base/shell.h"

void files_open(lua_State *L);
/* Waits for a background save; raises if the save failed. */
void files_finish(lua_State *L);

#endif
