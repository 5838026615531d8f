/* keys.h - the keys of the line editor, in which the user types a chunk. For edit.c, which waits for them; its thread
 * alone. */
#ifndef RILLE_SHELL_KEYS_H
#define RILLE_SHELL_KEYS_H

#include <lua.h>

void keys_open(lua_State *L);
/* Leaves what the user typed as it is, with `why` behind it. */
void keys_leave(const char *why);
void keys_resized(void); /* says that the terminal has another size */

/* Of edit.c: gives the chunk up, as Ctrl-C does. */
void edit_give_up(void);

#endif
