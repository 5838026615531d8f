/* keys.h - the keys of the line editor, in which a chunk is typed. For edit.c, which waits for them; its thread alone.
 */
#ifndef RILLE_SHELL_KEYS_H
#define RILLE_SHELL_KEYS_H

#include <lua.h>

void keys_open(lua_State *L);
/* What is typed is left as it is, with this behind it. */
void keys_leave(const char *why);
void keys_resized(void); /* the terminal has another size */

/* Of edit.c: the chunk is given up, as by Ctrl-C. */
void edit_give_up(void);

#endif
