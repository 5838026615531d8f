/* lua_tokenizer.h - text to token ids. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_MODULE_LUA_TOKENIZER_H
#define RILLE_SHELL_BIND_MODULE_LUA_TOKENIZER_H

#include "shell/bind/base/shell.h"

void tokenizers_open(lua_State *L);

#endif
