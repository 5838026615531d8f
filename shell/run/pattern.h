/* pattern.h - functions of Lua's library that Ctrl-C can stop. Main thread. */
#ifndef RILLE_SHELL_REPL_PATTERN_H
#define RILLE_SHELL_REPL_PATTERN_H

#include <lua.h>
#include <stdbool.h>

void pattern_open(lua_State *L);
void pattern_stop(void);    /* makes the pattern match in progress raise "interrupted"; safe in a signal handler */
bool pattern_refused(void); /* returns true if Ctrl-C made an allocation fail since the last call */

#endif
