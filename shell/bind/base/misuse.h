/* misuse.h - operators that Rille's objects do not support. Only the thread that owns the Lua state calls these
 * functions. */
#ifndef RILLE_SHELL_BIND_BASE_MISUSE_H
#define RILLE_SHELL_BIND_BASE_MISUSE_H

#include "shell/bind/base/shell.h"

/* Adds the metamethods to the metatables of all object kinds; call it after these kinds are registered. Adds
 * functions to the module table at the top. */
void misuse_open(lua_State *L);
void misuse_shape(lua_State *L); /* completes the metatable of shapes, at the top */
/* Pushes and returns the name of an object's class with its article, such as "an nn.Linear"; pushes nothing and returns
 * NULL if the value has no class. */
const char *class_text(lua_State *L, int i);
/* Raises the error of a function whose argument i is not of the kind. If the user wrote x.name() for x:name(), the
 * message says so. */
int refuse_self(lua_State *L, int i, enum kind kind, const char *name, const char *expected);
bool is_callable(lua_State *L, int i); /* returns true for functions and for objects that a user may call */

#endif
