/* edit.h - reads typed input, with history and completion. Main thread. */
#ifndef RILLE_SHELL_REPL_EDIT_H
#define RILLE_SHELL_REPL_EDIT_H

#include <lua.h>

enum edit_end { EDIT_LINE, EDIT_EOF, EDIT_INTERRUPT };

/* Discards the chunk, as Ctrl-C does. */
void edit_give_up(void);
void edit_open(lua_State *L); /* loads the history */
void edit_close(void);
/* Reads a line, or in a multi-line editor a whole chunk, without the last newline; the caller frees the text.
 * Returns EDIT_INTERRUPT after Ctrl-C. */
enum edit_end edit_line(const char *prompt, char **line);
/* Sets a callback that runs whenever the descriptor is readable while the editor waits for keys; fd -1: no
 * callback. */
void edit_visitors(int fd, void (*come)(void));
/* Adds one entry of one or more lines to the history, and appends it to the history file at once. */
void edit_remember(const char *chunk);

#endif
