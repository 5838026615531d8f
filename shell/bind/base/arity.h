/* arity.h - errors for more arguments than a function accepts. Only the thread that owns the Lua state calls these
 * functions. */
#ifndef RILLE_SHELL_BIND_BASE_ARITY_H
#define RILLE_SHELL_BIND_BASE_ARITY_H

#include "shell/bind/base/shell.h"

/* Replaces the function at the top by a function that raises an error for more than `most` arguments. self: number
 * of leading arguments that are the object of a method. */
void arity_limit(lua_State *L, const char *name, int most, int self);
/* limits the number of arguments of the functions of the module at the top, and of methods */
void arity_open(lua_State *L);

#endif
