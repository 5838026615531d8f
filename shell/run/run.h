/* run.h - runs a Lua function, and prints its error. Only the thread that owns the Lua state calls these functions.
 * */
#ifndef RILLE_SHELL_REPL_RUN_H
#define RILLE_SHELL_REPL_RUN_H

#include "shell/bind/base/shell.h"

/* Prints an error to stderr. Control characters, which occur in names and files, are escaped as in Lua: \27. */
void tell_error(const char *text);
void tell_line(const char *text); /* prints an error as a line that begins with "rille: " */
/* Calls lua_pcall with Ctrl-C enabled; an error leaves its text and a traceback on the stack. Returns LUA_OK or
 * Lua's error code. */
int run_quiet(lua_State *L, int nargs, int nresults);

void make_folders(const char *path); /* creates the parent folders of a file */

#endif
