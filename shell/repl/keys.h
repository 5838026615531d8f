/* keys.h - the keys of the line editor, in which the user types a chunk. Only edit.c uses these functions, on the
 * thread that waits for keys. */
#ifndef RILLE_SHELL_KEYS_H
#define RILLE_SHELL_KEYS_H

#include <lua.h>

void keys_open(lua_State *L);
/* Ends editing, leaves the typed text on the screen, and prints `why` after it. */
void keys_leave(const char *why);
void keys_resized(void); /* call after the terminal was resized */

#endif
