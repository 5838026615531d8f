/* text_only.h - makes the program refuse precompiled chunks. Main thread. */
#ifndef RILLE_SHELL_REPL_TEXT_ONLY_H
#define RILLE_SHELL_REPL_TEXT_ONLY_H

#include <lua.h>

/* makes Lua load only source text; call after Lua's libraries are open, before a package searcher is added */
void text_only_open(lua_State *L);

#endif
