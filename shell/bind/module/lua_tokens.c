/* lua_tokens.c - reads token ids for training: the primitives of rille.data.tokens (lua/data/tokens.lua). */
#include "shell/bind/module/lua_tokens.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/tensor/lua_place.h"
#include "shell/bind/tensor/lua_tensor.h"

#include <string.h>

static struct rille_tokens *
tokens_check(lua_State *L)
{
    struct rille_tokens **t = kind_test(L, 1, KIND_TOKENS);
    if (!t) complain(L, "tokens: expected a reader of rille._tokens, found %s", what_is(L, 1));
    if (!*t) complain(L, "tokens: the reader was closed");
    return *t;
}

static int
tokens_gc(lua_State *L)
{
    struct rille_tokens **x = kind_test(L, 1, KIND_TOKENS);
    if (x) rille_tokens_close(x);
    return 0;
}

static const char made; /* registry key of a table whose keys (weak) are the open readers */

void
tokens_close(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &made);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) rille_tokens_close(lua_touserdata(L, -2));
    lua_pop(L, 1);
}

/* Opens the files whose paths are in the list at i. */
static void
open_files(lua_State *L, int i, const char *who, struct rille_tokens **out)
{
    int n = (int)lua_rawlen(L, i);
    const char **path = lua_newuserdatauv(L, sizeof *path * (size_t)n, 0);
    for (int k = 0; k < n; k++, lua_pop(L, 1)) {
        if (lua_rawgeti(L, i, k + 1) != LUA_TSTRING) complain(L, "%s: a list of files has %s", who, what_is(L, -1));
        path[k] = text_at(L, -1, who); /* the pointer stays valid, because the list refers to the string */
    }
    at_line(L);
    check_as(L, who, rille_tokens_open(shell_of(L)->session, n, path, out));
}

static void
take_ids(lua_State *L, int i, const char *who, struct rille_tokens **out)
{
    lua_Integer n = (lua_Integer)lua_rawlen(L, i);
    int64_t *id = scratch_new(L, who, sizeof *id * (size_t)n);
    for (lua_Integer k = 0; k < n; k++, lua_pop(L, 1)) {
        lua_rawgeti(L, i, k + 1);
        if (!whole_at(L, -1, &id[k]) || id[k] < 0)
            complain(L, "%s: ids must be integers of at least 0, found %s", who, what_is(L, -1));
    }
    check_as(L, who, rille_tokens_of(shell_of(L)->session, n, id, out));
}

static void
take_tokens_tensor(lua_State *L, int i, const char *who, struct rille_tokens **out)
{
    struct rille_tensor *t = tensor_check(L, i, who);
    if (rille_tensor_ndim(t) != 1 || strcmp(rille_tensor_dtype(t), "i64"))
        complain(L, "%s: a tensor of ids must be i64 with one dimension", who);
    int64_t n = rille_tensor_numel(t), *id = scratch_new(L, who, sizeof *id * (size_t)n);
    at_line(L);
    check_as(L, who, rille_tensor_read(t, id));
    check_as(L, who, rille_tokens_of(shell_of(L)->session, n, id, out));
}

/* rille._tokens(who, path | {paths} | {ids} | tensor): returns a reader of token ids. */
static int
tokens(lua_State *L)
{
    const char *who = luaL_checkstring(L, 1);
    struct rille_tokens **slot = kind_new(L, KIND_TOKENS, sizeof(struct rille_tokens *));
    int type = lua_type(L, 2), result = lua_gettop(L);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &made);
    lua_pushvalue(L, result);
    lua_pushboolean(L, true);
    lua_rawset(L, -3);
    if (type == LUA_TSTRING) {
        lua_createtable(L, 1, 0);
        lua_pushvalue(L, 2);
        lua_rawseti(L, -2, 1);
        open_files(L, lua_gettop(L), who, slot);
    } else if (type == LUA_TTABLE && lua_rawgeti(L, 2, 1) == LUA_TSTRING) {
        open_files(L, 2, who, slot);
    } else if (type == LUA_TTABLE) {
        take_ids(L, 2, who, slot);
    } else if (tensor_test(L, 2)) {
        take_tokens_tensor(L, 2, who, slot);
    } else {
        complain(L, "%s: expected a file, a list of files, a list of ids or a tensor of ids, found %s", who,
                 what_is(L, 2));
    }
    lua_settop(L, result);
    return 1;
}

/* t:tokens_count(): returns the number of ids in all files, and in the longest file. */
static int
tokens_count(lua_State *L)
{
    int64_t most, n = rille_tokens_count(tokens_check(L), &most);
    lua_pushinteger(L, n);
    lua_pushinteger(L, most);
    return 2;
}

static int
tokens_windows(lua_State *L)
{
    lua_pushinteger(L, rille_tokens_windows(tokens_check(L), luaL_checkinteger(L, 2)));
    return 1;
}

/* t:digest(): returns a hash of the ids, by which a resumed run recognises its data. */
static int
digest(lua_State *L)
{
    uint64_t h;
    check_as(L, "tokens", rille_tokens_digest(tokens_check(L), &h));
    lua_pushinteger(L, (lua_Integer)h);
    return 1;
}

static int64_t
field(lua_State *L, int i, const char *name)
{
    lua_getfield(L, i, name);
    int64_t value = luaL_checkinteger(L, -1);
    lua_pop(L, 1);
    return value;
}

/* t:batch(who, {length =, first =, n =, vocab =, seed =, epoch =}, layout of x, layout of y): returns n windows of
 * token ids as the tensors x (inputs) and y (targets). */
static int
batch(lua_State *L)
{
    struct rille_tokens *t = tokens_check(L);
    const char *who = luaL_checkstring(L, 2);
    luaL_checktype(L, 3, LUA_TTABLE);
    struct rille_token_rows r = {.size = sizeof r,
                                 .length = field(L, 3, "length"),
                                 .first = field(L, 3, "first"),
                                 .n = field(L, 3, "n"),
                                 .vocab = field(L, 3, "vocab"),
                                 .seed = (uint64_t)field(L, 3, "seed"),
                                 .epoch = (uint64_t)field(L, 3, "epoch"),
                                 .x = layout_read(L, 4, who, 2, NULL),
                                 .y = layout_read(L, 5, who, 2, NULL)};
    struct rille_tensor **x = tensor_slot(L), **y = tensor_slot(L);
    at_line(L);
    check_as(L, who, rille_tokens_batch(t, &r, x, y));
    return 2;
}

/* t:stats(): returns counts and times of the background reader. */
static int
stats(lua_State *L)
{
    struct rille_source_stats s;
    rille_tokens_stats(tokens_check(L), &s);
    const struct {
        const char *name;
        int64_t value;
    } list[] = {{"depth", s.depth}, {"read", s.read}, {"taken", s.taken}, {"full", s.full}, {"waited", s.waited}};
    lua_createtable(L, 0, 6);
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        field_integer(L, list[k].name, list[k].value);
    }
    field_number(L, "wait", s.wait);
    return 1;
}

/* t:all(who): returns all ids as a tensor. */
static int
all(lua_State *L)
{
    struct rille_tokens *t = tokens_check(L);
    struct rille_tensor **slot = tensor_slot(L);
    at_line(L);
    check_as(L, luaL_checkstring(L, 2), rille_tokens_all(t, NULL, slot));
    return 1;
}

static void
make_weak(lua_State *L)
{
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    field_text(L, "__mode", "k");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &made);
}

void
tokens_open(lua_State *L)
{
    static const luaL_Reg methods[] = {{"count", tokens_count}, {"digest", digest},  {"windows", tokens_windows},
                                       {"batch", batch},        {"stats", stats},    {"all", all},
                                       {"close", tokens_gc},    {"__gc", tokens_gc}, {NULL, NULL}};
    make_weak(L);
    kind_make(L, KIND_TOKENS, "rille.tokens", methods);
    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    field_function(L, "_tokens", tokens);
}
