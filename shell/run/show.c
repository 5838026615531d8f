/* show.c - formats a value as the shell prints it: tables show their contents, the list part first, then the other
 * keys sorted, down to three levels. */
#include "shell/run/show.h"
#include "shell/bind/module/help.h"
#include "shell/bind/tensor/print.h"
#include "shell/bind/base/fold.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

enum { DEEP = 3, MANY = 40 };

struct show {
    lua_State *L;
    int seen; /* stack index of the set of tables that are being shown (to detect cycles) */
};

static int show_inner(struct show *s, int value, int depth);

static bool
is_name(const char *text)
{
    if (!isalpha((unsigned char)*text) && *text != '_') return false;
    while (isalnum((unsigned char)*text) || *text == '_') text++;
    return *text == 0;
}

/* Pushes a key in the form in which it precedes its value: "name = " or "[key] = ". */
static void
push_key(struct show *s, int key)
{
    lua_State *L = s->L;
    if (lua_type(L, key) == LUA_TSTRING && is_name(lua_tostring(L, key))) {
        lua_pushfstring(L, "%s = ", lua_tostring(L, key));
        return;
    }
    lua_pushliteral(L, "[");
    show_inner(s, key, DEEP);
    lua_pushliteral(L, "] = ");
    lua_concat(L, 3);
}

static int
compare_shown_keys(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts the strings from index first to the top. */
static void
sort_texts(lua_State *L, int first)
{
    int n = lua_gettop(L) - first + 1;
    const char **texts = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *texts, 0);
    for (int k = 0; k < n; k++) texts[k] = lua_tostring(L, first + k);
    qsort(texts, (size_t)n, sizeof *texts, compare_shown_keys);
    for (int k = 0; k < n; k++) lua_pushstring(L, texts[k]);
    for (int k = 0; k < n; k++) lua_replace(L, first + n - 1 - k);
    lua_pop(L, 1);
}

/* Pushes "key = value" for each entry outside the list part, up to a limit. Returns how many entries were omitted. */
static int
push_fields(struct show *s, int table, int depth, lua_Integer list)
{
    lua_State *L = s->L;
    int first = lua_gettop(L) + 1, left = 0;
    lua_pushnil(L);
    while (lua_next(L, table)) {
        int key = lua_gettop(L) - 1;
        lua_Integer at = lua_isinteger(L, key) ? lua_tointeger(L, key) : 0;
        if ((at >= 1 && at <= list) || key - first >= MANY) {
            left += !(at >= 1 && at <= list);
            lua_pop(L, 1);
            continue;
        }
        push_key(s, key);
        show_inner(s, key + 1, depth + 1);
        lua_concat(L, 2);
        lua_insert(L, key); /* the stack is now: text, key, value */
        lua_pop(L, 1);
    }
    sort_texts(L, first);
    return left;
}

/* Joins the n strings at the top of the stack, on one line if they fit, else with one string per line. */
static void
join_shown(lua_State *L, int n, int depth)
{
    luaL_Buffer b;
    size_t size = 0;
    bool lines = false;
    int first = lua_gettop(L) - n + 1;
    for (int k = first; k < first + n; k++) {
        size += lua_rawlen(L, k) + 2;
        lines = lines || strchr(lua_tostring(L, k), '\n');
    }
    lines = lines || size + 2 * (size_t)depth > (size_t)print_columns();
    luaL_buffinit(L, &b);
    luaL_addchar(&b, '{');
    for (int k = first; k < first + n; k++) {
        if (k > first) luaL_addstring(&b, lines ? "," : ", ");
        if (lines) luaL_addchar(&b, '\n');
        for (int d = 0; lines && d <= depth; d++) luaL_addstring(&b, "  ");
        luaL_addstring(&b, lua_tostring(L, k));
    }
    if (lines) luaL_addchar(&b, '\n');
    for (int d = 0; lines && d < depth; d++) luaL_addstring(&b, "  ");
    luaL_addchar(&b, '}');
    luaL_pushresult(&b);
    lua_insert(L, first);
    lua_pop(L, n);
}

static void
show_table(struct show *s, int table, int depth)
{
    lua_State *L = s->L;
    lua_Integer list = (lua_Integer)lua_rawlen(L, table), shown = list > MANY ? MANY : list;
    int before = lua_gettop(L);
    luaL_checkstack(L, 3 * MANY + 20, "show");
    for (lua_Integer k = 1; k <= shown; k++) {
        lua_rawgeti(L, table, k);
        show_inner(s, lua_gettop(L), depth + 1);
        lua_remove(L, -2);
    }
    lua_Integer left = list - shown + push_fields(s, table, depth, list);
    if (left) lua_pushfstring(L, "... %I more", left);
    join_shown(L, lua_gettop(L) - before, depth);
}

/* Returns the size in bytes of the printable character at text; 0: not printable. */
static size_t
seen_bytes(const char *text, size_t n)
{
    mbstate_t state;
    wchar_t c;
    memset(&state, 0, sizeof state);
    size_t size = mbrtowc(&c, text, n, &state);
    return size == 0 || size > n || !iswprint((wint_t)c) ? 0 : size;
}

/* Pushes a string as a Lua literal, with escapes for bytes that cannot be printed. */
static void
show_string(lua_State *L, int value)
{
    luaL_Buffer b;
    size_t n, size;
    const char *text = lua_tolstring(L, value, &n);
    char number[8];
    luaL_buffinit(L, &b);
    luaL_addchar(&b, '"');
    for (; n; text += size, n -= size) {
        size = seen_bytes(text, n);
        if (*text == '"' || *text == '\\') luaL_addchar(&b, '\\');
        if (size) {
            luaL_addlstring(&b, text, size);
            continue;
        }
        size = 1;
        if (*text == '\n')
            strcpy(number, "\\n");
        else
            snprintf(number, sizeof number, n > 1 && isdigit((unsigned char)text[1]) ? "\\%03d" : "\\%d",
                     (unsigned char)*text);
        luaL_addstring(&b, number);
    }
    luaL_addchar(&b, '"');
    luaL_pushresult(&b);
}

/* Returns true for a class: a table that is its own __index, or a strict class (lua/base/check.lua), which has a name
 * and a function as its __index. */
static bool
is_class(lua_State *L, int value)
{
    if (lua_type(L, value) != LUA_TTABLE) return false;
    lua_pushliteral(L, "__name");
    bool named = lua_rawget(L, value) == LUA_TSTRING;
    lua_pushliteral(L, "__index");
    bool strict = lua_rawget(L, value) == LUA_TFUNCTION && named, class = strict || lua_rawequal(L, -1, value);
    lua_pop(L, 2);
    return class;
}

/* Pushes the signature of a class or of one of Rille's functions, or the name of another class. Returns false for
 * other values. */
static bool
push_callable(lua_State *L, int value)
{
    bool class = is_class(L, value);
    if (!class && lua_type(L, value) != LUA_TFUNCTION) return false;
    if (help_push_call(L, value)) return true;
    lua_pushliteral(L, "__name");
    bool named = class && lua_rawget(L, value) == LUA_TSTRING;
    if (named) lua_pushfstring(L, "class %s", lua_tostring(L, -1));
    lua_remove(L, named ? -2 : -1);
    return named;
}

/* Pushes the text of the value. depth: 0 for the value that the user asked for, whose text shows strings unquoted
 * and tensors with their values. */
static int
show_inner(struct show *s, int value, int depth)
{
    lua_State *L = s->L;
    int type = lua_type(L, value);
    if (type == LUA_TSTRING && depth)
        show_string(L, value);
    else if (depth && tensor_test(L, value))
        print_line(L, value);
    else if (push_callable(L, value))
        return 1;
    else if (type != LUA_TTABLE || luaL_getmetafield(L, value, "__tostring")) {
        if (type == LUA_TTABLE) lua_pop(L, 1);
        luaL_tolstring(L, value, NULL);
    } else {
        lua_pushvalue(L, value);
        bool open = lua_rawget(L, s->seen) != LUA_TNIL;
        lua_pop(L, 1);
        if (open || depth >= DEEP) {
            lua_pushstring(L, open ? "{again}" : "{...}");
            return 1;
        }
        lua_pushvalue(L, value);
        lua_pushboolean(L, true);
        lua_rawset(L, s->seen);
        show_table(s, value, depth);
        lua_pushvalue(L, value);
        lua_pushnil(L);
        lua_rawset(L, s->seen);
    }
    return 1;
}

void
show_value(lua_State *L, int i)
{
    i = lua_absindex(L, i);
    lua_newtable(L);
    struct show s = {L, lua_gettop(L)};
    show_inner(&s, i, 0);
    lua_remove(L, -2);
}
