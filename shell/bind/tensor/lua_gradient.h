/* lua_gradient.h - gradient functions and hooks. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_TENSOR_LUA_GRADIENT_H
#define RILLE_SHELL_BIND_TENSOR_LUA_GRADIENT_H

#include "shell/bind/base/shell.h"

void gradient_open(lua_State *L); /* adds functions to the module table at the top */
int tensor_retain_grad(lua_State *L);

#endif
