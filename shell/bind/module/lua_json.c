/* lua_json.c - converts JSON to Lua values with jansson: the primitive of rille.json (lua/json.lua). */
#include "shell/bind/module/lua_json.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/shell.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 1, WHO, NULL_VALUE, ARRAY_META, ORDER }; /* arguments of rille._json */

static int
json_gc(lua_State *L)
{
    json_t **v = kind_test(L, 1, KIND_JSON);
    if (!v) return 0;
    json_decref(*v);
    *v = NULL;
    return 0;
}

/* ---- reading integers of more than 64 bits as floats ---- */

/* Returns the end of the token at `at`: a string, a number, or any other single byte. */
static const char *
token_end(const char *at, const char *end)
{
    size_t n = strspn(at, "+-.0123456789Ee");
    if (*at != '"') return at + (n ? n : 1);
    for (at++; at < end && *at != '"'; at++) at += *at == '\\';
    return at < end ? at + 1 : end;
}

static bool
is_large_integer(const char *from, const char *to)
{
    const char *digits = from + (*from == '-');
    if (digits + strspn(digits, "0123456789") != to) return false;
    errno = 0;
    (void)strtoll(from, NULL, 10);
    return errno == ERANGE;
}

/* Pushes the text with e0 appended to every integer beyond 64 bits, so that the parser reads it as a float. Other
 * programs write floats such as 1e30 as long integers. */
static void
push_with_reals(lua_State *L, const char *text, size_t n)
{
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (const char *at = text, *next; at < text + n; at = next) {
        next = token_end(at, text + n);
        luaL_addlstring(&b, at, (size_t)(next - at));
        if (is_large_integer(at, next)) luaL_addstring(&b, "e0");
    }
    luaL_pushresult(&b);
}

/* ---- values ---- */

static void push_json(lua_State *L, const json_t *v);

static void
push_array(lua_State *L, const json_t *v)
{
    size_t n = json_array_size(v);
    lua_newtable(L);
    lua_pushvalue(L, ARRAY_META);
    lua_setmetatable(L, -2);
    for (size_t i = 0; i < n; i++) {
        push_json(L, json_array_get(v, i));
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/* Stores the names of the object at the top of the stack, in the order of the text, in the table at index ORDER. */
static void
push_order(lua_State *L, const json_t *v)
{
    const char *name;
    json_t *of;
    lua_pushvalue(L, -1);
    lua_newtable(L);
    json_object_foreach((json_t *)v, name, of)
    {
        lua_pushstring(L, name);
        lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    }
    lua_rawset(L, ORDER);
}

static void
push_object(lua_State *L, const json_t *v)
{
    const char *name;
    json_t *of;
    lua_newtable(L);
    json_object_foreach((json_t *)v, name, of)
    {
        lua_pushstring(L, name);
        push_json(L, of);
        lua_rawset(L, -3);
    }
    if (lua_istable(L, ORDER)) push_order(L, v);
}

/* Pushes the Lua value of v. Recursion is bounded, because jansson limits nesting. */
static void
push_json(lua_State *L, const json_t *v)
{
    luaL_checkstack(L, 6, "JSON is nested too deep");
    switch (json_typeof(v)) {
    case JSON_OBJECT: push_object(L, v); break;
    case JSON_ARRAY: push_array(L, v); break;
    case JSON_STRING: lua_pushlstring(L, json_string_value(v), json_string_length(v)); break;
    case JSON_INTEGER: lua_pushinteger(L, json_integer_value(v)); break;
    case JSON_REAL: lua_pushnumber(L, json_real_value(v)); break;
    case JSON_TRUE: lua_pushboolean(L, true); break;
    case JSON_FALSE: lua_pushboolean(L, false); break;
    case JSON_NULL: lua_pushvalue(L, NULL_VALUE); break;
    }
}

/* Raises if the text has a zero byte, because jansson skips zero bytes after a number or a word. */
static void
check_zeros(lua_State *L, const char *who, const char *text, size_t n)
{
    int line = 1;
    const char *zero = memchr(text, '\0', n);
    for (const char *at = text; zero && at < zero; at++) line += *at == '\n';
    if (zero) complain(L, "%s: line %d is not JSON: a zero byte", who, line);
}

/* rille._json(text, who, null, array, order): returns the parsed value. null: value for JSON's null. array:
 * metatable of arrays. order: nil, or a table; for each object, the function stores there the list of the object's
 * names, in the order of the text. */
static int
read(lua_State *L)
{
    enum { STRICT = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL };
    size_t n;
    json_error_t why;
    const char *text = luaL_checklstring(L, TEXT, &n), *who = luaL_checkstring(L, WHO);
    luaL_checktype(L, ARRAY_META, LUA_TTABLE);
    lua_settop(L, ORDER);
    check_zeros(L, who, text, n);
    json_t **v = kind_new(L, KIND_JSON, sizeof *v);
    *v = json_loadb(text, n, STRICT, &why);
    if (!*v && json_error_code(&why) == json_error_numeric_overflow) {
        push_with_reals(L, text, n);
        text = lua_tolstring(L, -1, &n);
        *v = json_loadb(text, n, STRICT, &why);
    }
    /* replaces non-ASCII and control bytes by '?', because the message may quote arbitrary bytes */
    for (char *c = why.text; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
    if (!*v) return complain(L, "%s: line %d is not JSON: %s", who, why.line > 0 ? why.line : 1, why.text);
    push_json(L, *v);
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
    field_function(L, "_json", read);
}
