/* complete.c - what the name before the cursor may become.
 *
 *   to            globals, locals, Lua's words
 *   rille.ma      fields of the table that rille is
 *   net.fc1:for   methods: fields that are functions, also those of metatables
 *   x:mat  x.sh   a tensor's methods and fields
 *   :ti  ?mat     commands; pages
 *
 * Tables are only looked into, never asked: no metamethod runs but those of Rille's own module. */
#include "shell/repl.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {"and",      "break",  "do",   "else", "elseif", "end",  "false", "for",
                                    "function", "goto",   "if",   "in",   "local",  "nil",  "not",   "or",
                                    "repeat",   "return", "then", "true", "until",  "while"};

struct matches {
    lua_State *L;
    int list;         /* index of the list, which is also the set of its entries */
    const char *base; /* what stands before the name: "rille." */
    size_t base_size;
    const char *begin; /* of the name */
    size_t size;
    bool functions; /* only those */
};

static void
add(struct matches *m, const char *name)
{
    if (strncmp(name, m->begin, m->size)) return;
    if (name[0] == '_' && m->size == 0) return; /* hidden until asked for */
    lua_pushlstring(m->L, m->base, m->base_size);
    lua_pushstring(m->L, name);
    lua_concat(m->L, 2);
    lua_pushvalue(m->L, -1);
    if (lua_rawget(m->L, m->list) == LUA_TNIL) {
        lua_pop(m->L, 1);
        lua_pushvalue(m->L, -1);
        lua_rawseti(m->L, m->list, (lua_Integer)lua_rawlen(m->L, m->list) + 1);
        lua_pushboolean(m->L, true);
        lua_rawset(m->L, m->list);
        return;
    }
    lua_pop(m->L, 2);
}

static void
add_keys(struct matches *m, int table)
{
    lua_State *L = m->L;
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TSTRING && (!m->functions || lua_isfunction(L, -1))) add(m, lua_tostring(L, -2));
}

/* The names of a value: a table's keys, then those of the table its metatable's __index is; a tensor's methods. */
static void
add_value(struct matches *m, int value, int depth)
{
    static const char *const fields[] = {"shape",  "ndim",          "dtype", "placement", "sbp",
                                         "device", "requires_grad", "grad",  "name",      "is_leaf"};
    lua_State *L = m->L;
    if (lua_istable(L, value)) add_keys(m, value);
    for (size_t k = 0; !m->functions && tensor_test(L, value) && k < sizeof fields / sizeof *fields; k++)
        add(m, fields[k]);
    if (depth == 0 || !luaL_getmetafield(L, value, tensor_test(L, value) ? "__methods" : "__index")) return;
    add_value(m, lua_gettop(L), depth - 1);
    lua_pop(L, 1);
}

static void
add_globals(struct matches *m, int env)
{
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) add(m, words[k]);
    add_keys(m, env);
    lua_pushglobaltable(m->L);
    add_keys(m, lua_gettop(m->L));
    lua_pop(m->L, 1);
}

/* Replaces the value at the top by its field, found without asking metamethods but those of Rille's module. */
static void
step_into(lua_State *L, const char *name, size_t size)
{
    lua_pushlstring(L, name, size);
    lua_getglobal(L, "rille");
    bool module = lua_rawequal(L, -1, -3);
    lua_pop(L, 1);
    if (!lua_istable(L, -2))
        lua_pop(L, 1), lua_pushnil(L);
    else if (module)
        lua_gettable(L, -2);
    else
        lua_rawget(L, -2);
    lua_remove(L, -2);
}

/* Pushes what the names up to end mean: "a.b.c". */
static void
push_path(lua_State *L, int env, const char *at, const char *end)
{
    size_t n = strcspn(at, ".:");
    lua_pushlstring(L, at, n);
    lua_gettable(L, env);
    for (at += n; at < end; at += n) {
        at++;
        n = strcspn(at, ".:");
        step_into(L, at, n);
    }
}

static void
add_commands(struct matches *m)
{
    for (int i = 0; command_name(i); i++) add(m, command_name(i));
}

static void
add_pages(struct matches *m)
{
    const struct rille_op *op;
    for (int i = 0; (op = rille_op_at(i)); i++)
        if (!rille_op_hidden(op)) add(m, rille_op_name(op));
    lua_getglobal(m->L, "rille");
    add_keys(m, lua_gettop(m->L));
    lua_pop(m->L, 1);
}

static int
compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Pushes the list of the strings in the list at the top, sorted. */
static void
push_sorted(lua_State *L)
{
    int n = (int)lua_rawlen(L, -1), list = lua_gettop(L);
    const char **names = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *names, 0);
    for (int k = 0; k < n; k++) {
        lua_rawgeti(L, list, k + 1);
        names[k] = lua_tostring(L, -1);
        lua_pop(L, 1);
    }
    qsort(names, (size_t)n, sizeof *names, compare);
    lua_createtable(L, n, 0);
    for (int k = 0; k < n; k++) {
        lua_pushstring(L, names[k]);
        lua_rawseti(L, -2, k + 1);
    }
}

int
complete(lua_State *L, int env, const char *line, int end)
{
    int begin = end;
    while (begin > 0 && (isalnum((unsigned char)line[begin - 1]) || strchr("_.:?", line[begin - 1]))) begin--;
    const char *text = lua_pushlstring(L, line + begin, (size_t)(end - begin));
    const char *last = text + strlen(text);
    while (last > text && last[-1] != '.' && last[-1] != ':' && last[-1] != '?') last--;
    lua_newtable(L);
    struct matches m = {L, lua_gettop(L), text, (size_t)(last - text), last, strlen(last), false};
    if (last == text + 1 && *text == ':')
        add_commands(&m);
    else if (last == text + 1 && *text == '?')
        add_pages(&m);
    else if (last == text)
        add_globals(&m, env);
    else {
        m.functions = last[-1] == ':';
        push_path(L, env, text, last - 1);
        add_value(&m, lua_gettop(L), 5);
        lua_pop(L, 1);
    }
    push_sorted(L);
    return begin;
}
