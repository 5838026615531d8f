/* top.h - shows what the device threads do while an expression runs. Main thread. */
#ifndef RILLE_SHELL_REPL_TOP_H
#define RILLE_SHELL_REPL_TOP_H

#include <lua.h>

/* Calls a function like lua_pcall (the function is below its nargs arguments at the top), and shows the activity
 * of device threads meanwhile. */
int top_run(lua_State *L, int nargs);
/* runs :top without an expression: draws until q is pressed; without a terminal, once */
void top_watch(lua_State *L);

#endif
