/* print.h - tensors as text. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_TENSOR_PRINT_H
#define RILLE_SHELL_BIND_TENSOR_PRINT_H

#include "shell/bind/base/shell.h"

void print_tensor(lua_State *L, struct rille_tensor *t); /* pushes the tensor as text */
void print_line(lua_State *L, int i); /* pushes one line about the tensor at i, with its values if they are few */

#endif
