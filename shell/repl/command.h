/* command.h - commands typed with a colon. Main thread. */
#ifndef RILLE_SHELL_REPL_COMMAND_H
#define RILLE_SHELL_REPL_COMMAND_H

#include <lua.h>
#include <stdbool.h>

int command_run(lua_State *L, int env, const char *line); /* runs a command; line: the command without its colon */
const char *command_name(int i);                          /* returns the i-th name; NULL after the last */
bool command_push_page(lua_State *L, const char *name);   /* pushes the :help text; false: no such command */

#endif
