/* complete.h - completes typed text. Main thread. */
#ifndef RILLE_SHELL_REPL_COMPLETE_H
#define RILLE_SHELL_REPL_COMPLETE_H

#include <lua.h>
#include <stdbool.h>

/* Pushes the sorted list of completions of the word before the cursor, and returns the position at which the word
 * begins. end: byte position of the cursor; env: stack index of the chunks' environment. Runs no user code. */
int complete(lua_State *L, int env, const char *line, int end);
/* Pushes the call syntax of the function at the cursor, "softmax(x, axis = -1)". Returns false, and pushes nothing,
 * if the function is unknown. */
bool complete_hint(lua_State *L, const char *line, int end);
void complete_open(lua_State *L); /* adds rille._keys and rille._complete, for tests */

#endif
