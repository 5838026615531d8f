/* field.h - each function sets a field of the table at the top of Lua's stack. Only the thread that owns the Lua
 * state calls these functions. */
#ifndef RILLE_SHELL_BIND_BASE_FIELD_H
#define RILLE_SHELL_BIND_BASE_FIELD_H

#include "shell/bind/base/shell.h"

void field_text(lua_State *L, const char *key, const char *value); /* value NULL: nil */
void field_number(lua_State *L, const char *key, double value);
void field_integer(lua_State *L, const char *key, int64_t value);
void field_flag(lua_State *L, const char *key, bool value);
void field_function(lua_State *L, const char *key, lua_CFunction value);

#endif
