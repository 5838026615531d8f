/* names.h - misspelt names. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_BASE_NAMES_H
#define RILLE_SHELL_BIND_BASE_NAMES_H

#include "shell/bind/base/shell.h"

struct nearest { /* a similar name, and the number of letters that differ; name NULL: no name is similar */
    const char *name;
    int changes;
};
void names_open(lua_State *L); /* adds functions to the module table at the top */
/* Sets *best to `key` if `key` is similar to a misspelt name, and closer than *best. */
void nearest_add(struct nearest *best, const char *name, const char *key);
/* Sets *best to the table key closest to a misspelt name, if closer than *best. The table owns the key. */
void name_nearest(lua_State *L, int table, const char *name, struct nearest *best);
/* Returns Rille's name for what other libraries call `name`. scope: "" (a global), "tensor" or "rille". NULL:
 * unknown. */
const char *name_elsewhere(const char *scope, const char *name);
/* Writes "unknown option --x" to text, followed by Rille's name for that option of another program, or else by the
 * nearest option. */
void nearest_option_print(const struct nearest *best, const char *option, char *text, size_t size);
/* Returns "; the nearest name is 'x'", or "", for the end of a message. May push a new value for the text. */
const char *name_hint(lua_State *L, const struct nearest *best);
/* Returns the end of the message for an unknown option. keys: the valid options; NULL ends the list. For an
 * option of another library, the text names Rille's option: ": write axis" for PyTorch's dim. For other names,
 * the text is that of name_hint(). */
const char *option_hint(lua_State *L, const char *name, const char *const *keys);

#endif
