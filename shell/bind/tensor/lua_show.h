/* lua_show.h - pictures. Only the thread that owns the Lua state calls these functions. */
#ifndef RILLE_SHELL_BIND_TENSOR_LUA_SHOW_H
#define RILLE_SHELL_BIND_TENSOR_LUA_SHOW_H

#include "shell/bind/base/shell.h"

/* Pushes a method that is implemented by function `name` of the Lua module `module`; the module is loaded at the
 * first call. */
void look_push(lua_State *L, const char *module, const char *name);
void show_open(lua_State *L);  /* adds x:show() to the table of methods at the top */
int boxing_show(lua_State *L); /* show() of a record of rille.boxing */
int show_drawn(lua_State *L);  /* the Lua function rille._show */
/* Draws a picture in Lua: calls the function that lua/show/NAME.lua returns, with all values on the stack as
 * arguments. */
int picture_call(lua_State *L, const char *name);
/* Sets the metatable that makes the table at the top print as text. kind: name of a field of rille.show.records. */
void print_as(lua_State *L, const char *kind);

#endif
