/* fold.h - texts wrapped at words. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_BASE_FOLD_H
#define RILLE_SHELL_BIND_BASE_FOLD_H

#include "shell/bind/base/shell.h"

int terminal_columns(int fd); /* returns 0 if fd is not a terminal */
int print_columns(void);      /* columns of the terminal; 80 without a terminal */
/* Returns the text wrapped at words to `columns`; the caller frees it. NULL: out of memory. */
char *fold_text(const char *text, int columns);
void fold_push(lua_State *L, const char *text); /* pushes the text wrapped for stdout */
void fold_print(const char *text);              /* prints the text wrapped, and a newline */

#endif
