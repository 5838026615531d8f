/* modules.h - the table of modules written in Lua, generated at build time from lua/ (modules.cmake). Constant: any
 * thread may read the table. */
#ifndef RILLE_SHELL_MODULES_H
#define RILLE_SHELL_MODULES_H

#include "shell/bind/base/shell.h"

#include <stddef.h>

struct module_text {
    const char *name; /* module name without "rille.": "nn.linear"; NULL ends the table */
    const char *text; /* source text, not zero-terminated */
    size_t size;
};
extern const struct module_text module_texts[];

/* Loads rille.NAME ("nn.linear"). Returns LUA_OK and pushes the function, or Lua's error code and pushes a message,
 * or MODULE_NONE and pushes nothing. */
enum { MODULE_NONE = -1 };
int module_load(lua_State *L, const char *name);
bool module_exists(lua_State *L, const char *name);
/* Returns true if `source` (of a lua_Debug) is a built-in module. */
bool module_is_source(const char *source);

#endif
