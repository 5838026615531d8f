/* lua_tensor.h - tensors. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_TENSOR_LUA_TENSOR_H
#define RILLE_SHELL_BIND_TENSOR_LUA_TENSOR_H

#include "shell/bind/base/shell.h"

void tensor_open(lua_State *L);
/* Pushes a tensor userdata without a handle, and returns the address at which the handle is stored. The caller
 * must store a handle at once. */
struct rille_tensor **tensor_slot(lua_State *L);
struct rille_tensor *tensor_check(lua_State *L, int i, const char *who); /* raises if the value is no tensor */
void tensor_list(lua_State *L, int i, const char *who, int max, struct rille_tensor **out, int *n);
void push_shape(lua_State *L, int n, const int64_t *shape);

#endif
