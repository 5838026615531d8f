/* field.c - sets fields of the table at the top of the stack. */
#include "shell/bind/base/field.h"

void
field_text(lua_State *L, const char *key, const char *value)
{
    lua_pushstring(L, value);
    lua_setfield(L, -2, key);
}

void
field_number(lua_State *L, const char *key, double value)
{
    lua_pushnumber(L, value);
    lua_setfield(L, -2, key);
}

void
field_integer(lua_State *L, const char *key, int64_t value)
{
    lua_pushinteger(L, value);
    lua_setfield(L, -2, key);
}

void
field_flag(lua_State *L, const char *key, bool value)
{
    lua_pushboolean(L, value);
    lua_setfield(L, -2, key);
}

void
field_function(lua_State *L, const char *key, lua_CFunction value)
{
    lua_pushcfunction(L, value);
    lua_setfield(L, -2, key);
}
