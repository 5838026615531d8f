/* lua_create.h - functions that create tensors, and their options. Only the thread that owns the Lua state calls
 * these functions. */
#ifndef RILLE_SHELL_BIND_TENSOR_LUA_CREATE_H
#define RILLE_SHELL_BIND_TENSOR_LUA_CREATE_H

#include "shell/bind/base/shell.h"

struct options {       /* options of a function that creates a tensor */
    const char *dtype; /* NULL: not given */
    const struct rille_layout *layout;
    bool requires_grad;
    bool planned; /* sbp = "auto": the planner chooses the layout */
    const char *name;
};
void create_open(lua_State *L);
/* reads the options at i, which may be nil */
void options_read(lua_State *L, int i, const char *who, int ndim, struct options *o);
void options_apply(lua_State *L, const char *who, const struct options *o, struct rille_tensor *t);
/* reads a shape: a table at *i, or integers from *i on; advances *i past them */
int shape_read(lua_State *L, int *i, const char *who, int64_t *shape);

#endif
