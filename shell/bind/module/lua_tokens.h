/* lua_tokens.h - token ids to train on. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_MODULE_LUA_TOKENS_H
#define RILLE_SHELL_BIND_MODULE_LUA_TOKENS_H

#include "shell/bind/base/shell.h"

void tokens_open(lua_State *L);
void tokens_close(lua_State *L); /* closes all readers of token files */

#endif
