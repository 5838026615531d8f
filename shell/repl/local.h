/* local.h - locals that outlive their chunk. Main thread. */
#ifndef RILLE_SHELL_REPL_LOCAL_H
#define RILLE_SHELL_REPL_LOCAL_H

#include <lua.h>

/* Pushes the chunk, in which assignments to fields of the table LOCAL_TABLE replace the declarations of top-level
 * locals; line numbers are kept. */
#define LOCAL_TABLE "__here"
void local_rewrite(lua_State *L, const char *chunk);
/* Pushes a new environment for chunks: a table of the user's locals, whose missing names are looked up in the
 * globals. */
void local_environment(lua_State *L);

#endif
