/* show.h - converts a value to the text that the shell prints for a result. Main thread. */
#ifndef RILLE_SHELL_REPL_SHOW_H
#define RILLE_SHELL_REPL_SHOW_H

#include <lua.h>

void show_value(lua_State *L, int i); /* pushes the value as text */

#endif
