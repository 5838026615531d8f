/* lua_file.h - files of tensors. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_MODULE_LUA_FILE_H
#define RILLE_SHELL_BIND_MODULE_LUA_FILE_H

#include "shell/bind/base/shell.h"

void files_open(lua_State *L);
/* Waits for a background save; raises if the save failed. */
void files_finish(lua_State *L);
/* Names and handles of tensors, to pass to the core; in a userdata on the stack. */
struct names {
    int n;
    const char **name;
    struct rille_tensor **tensor;
};
/* Reads the table of tensors, or the single tensor, at i. Pushes a userdata that stores the arrays of names and
 * handles. */
void names_read(lua_State *L, int i, const char *who, struct names *out);

#endif
