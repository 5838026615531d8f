/* lua_json.c - JSON as Lua values, read by jansson: what rille.json (lua/json.lua) is made of. */
#include "shell/shell.h"

#include <jansson.h>

#include <math.h>

enum { TEXT = 1, WHO, NULL_VALUE, ARRAY_META }; /* arguments of rille._json */

static int
json_gc(lua_State *L)
{
    json_t **v = lua_touserdata(L, 1); /* no program has one */
    json_decref(*v);
    *v = NULL;
    return 0;
}

/* A whole number that integers hold is one, for a text in which another is larger than they are. */
static void
push_real(lua_State *L, double x, bool whole)
{
    if (whole && x == floor(x) && fabs(x) < 0x1p53)
        lua_pushinteger(L, (lua_Integer)x);
    else
        lua_pushnumber(L, x);
}

static void push(lua_State *L, const json_t *v, bool whole);

static void
push_array(lua_State *L, const json_t *v, bool whole)
{
    size_t n = json_array_size(v);
    lua_newtable(L);
    lua_pushvalue(L, ARRAY_META);
    lua_setmetatable(L, -2);
    for (size_t i = 0; i < n; i++) {
        push(L, json_array_get(v, i), whole);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

static void
push_object(lua_State *L, const json_t *v, bool whole)
{
    const char *name;
    json_t *of;
    lua_newtable(L);
    json_object_foreach((json_t *)v, name, of)
    {
        lua_pushstring(L, name);
        push(L, of, whole);
        lua_rawset(L, -3);
    }
}

/* As deep as jansson reads. */
static void
push(lua_State *L, const json_t *v, bool whole)
{
    luaL_checkstack(L, 4, "JSON is nested too deep");
    switch (json_typeof(v)) {
    case JSON_OBJECT: push_object(L, v, whole); break;
    case JSON_ARRAY: push_array(L, v, whole); break;
    case JSON_STRING: lua_pushlstring(L, json_string_value(v), json_string_length(v)); break;
    case JSON_INTEGER: lua_pushinteger(L, json_integer_value(v)); break;
    case JSON_REAL: push_real(L, json_real_value(v), whole); break;
    case JSON_TRUE: lua_pushboolean(L, true); break;
    case JSON_FALSE: lua_pushboolean(L, false); break;
    case JSON_NULL: lua_pushvalue(L, NULL_VALUE); break;
    }
}

/* rille._json(text, who, null, array): the value; null stands for null, array is the metatable of arrays. Other
 * programs write integers that no integer holds, such as 1e30 in full: then all are read as reals. */
static int
read(lua_State *L)
{
    enum { STRICT = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL };
    size_t n;
    json_error_t why;
    const char *text = luaL_checklstring(L, TEXT, &n), *who = luaL_checkstring(L, WHO);
    luaL_checktype(L, ARRAY_META, LUA_TTABLE);
    json_t **v = kind_new(L, KIND_JSON, sizeof *v);
    *v = json_loadb(text, n, STRICT, &why);
    bool whole = !*v && json_error_code(&why) == json_error_numeric_overflow;
    if (whole) *v = json_loadb(text, n, STRICT | JSON_DECODE_INT_AS_REAL, &why);
    for (char *c = why.text; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?'; /* of the text, which may be anything */
    if (!*v) return complain(L, "%s: line %d is not JSON: %s", who, why.line > 0 ? why.line : 1, why.text);
    push(L, *v, whole);
    json_decref(*v);
    *v = NULL;
    return 1;
}

void
json_open(lua_State *L)
{
    static const luaL_Reg methods[] = {{"__gc", json_gc}, {NULL, NULL}};
    kind_make(L, KIND_JSON, "rille.json", methods);
    lua_pop(L, 1);
    lua_pushcfunction(L, read);
    lua_setfield(L, -2, "_json");
}
