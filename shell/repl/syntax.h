/* syntax.h - explains text that is not Lua. Main thread. */
#ifndef RILLE_SHELL_REPL_SYNTAX_H
#define RILLE_SHELL_REPL_SYNTAX_H

#include <lua.h>
#include <stdbool.h>

/* Appends a hint to the syntax error at the top if the chunk has a construct of another language: how to write it
 * in Lua. Returns false if no hint applies. */
bool syntax_hint(lua_State *L, const char *chunk);

#endif
