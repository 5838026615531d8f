/* lua_tokenizer.c - converts text to token ids and back: the primitives of rille.tokenizer (lua/tokenizer.lua). */
#include "shell/bind/module/lua_tokenizer.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/misuse.h"
#include "shell/bind/base/shell.h"

#include <stdlib.h>
#include <string.h>

static struct rille_tokenizer *
tokenizer_check(lua_State *L, const char *who)
{
    struct rille_tokenizer **t = kind_test(L, 1, KIND_TOKENIZER);
    if (!t || !*t) refuse_self(L, 1, KIND_TOKENIZER, who, "a tokenizer");
    return *t;
}

static int
tokenizer_gc(lua_State *L)
{
    struct rille_tokenizer **t = kind_test(L, 1, KIND_TOKENIZER);
    if (t) rille_tokenizer_free(t);
    return 0;
}

static int
trainer_gc(lua_State *L)
{
    struct rille_trainer **r = kind_test(L, 1, KIND_TRAINER);
    if (r) rille_trainer_free(r);
    return 0;
}

/* Returns the strings of the list at i, and pushes the userdata that stores the array. */
static const char *const *
tokenizer_texts_read(lua_State *L, int i, const char *who, int *n)
{
    if (!lua_isnoneornil(L, i) && !lua_istable(L, i))
        complain(L, "%s: special must be a list of strings, found %s", who, what_is(L, i));
    *n = lua_isnoneornil(L, i) ? 0 : (int)lua_rawlen(L, i);
    const char **text = lua_newuserdatauv(L, sizeof *text * (size_t)(*n + 1), 0);
    for (int k = 0; k < *n; k++, lua_pop(L, 1)) {
        if (lua_rawgeti(L, i, k + 1) != LUA_TSTRING)
            complain(L, "%s: special must be a list of strings, found %s", who, what_is(L, -1));
        text[k] = text_at(L, -1, who);
    }
    return text;
}

/* Returns the n ids of the list at i, and pushes the userdata that stores the array. Returns NULL if the value is
 * nil. */
static const int64_t *
special_ids(lua_State *L, int i, const char *who, int n)
{
    if (lua_isnoneornil(L, i)) return NULL;
    int64_t *id = lua_newuserdatauv(L, sizeof *id * (size_t)(n + 1), 0);
    for (int k = 0; k < n; k++, lua_pop(L, 1)) {
        lua_rawgeti(L, i, k + 1);
        if (!whole_at(L, -1, &id[k])) complain(L, "%s: ids must be integers, found %s", who, what_is(L, -1));
    }
    return id;
}

/* Warns that encode ignores the truncation or padding in the tokenizer file. Other libraries may apply both, so
 * results may differ. */
static void
warn_of_batches(lua_State *L, const char *path, const struct rille_tokenizer *t)
{
    const char *what = rille_tokenizer_batches(t);
    if (!what) return;
    lua_pushfstring(L, "%s: encode ignores the %s of this file and returns exactly the ids of the string", path, what);
    lua_warning(L, lua_tostring(L, -1), 0);
    lua_pop(L, 1);
}

/* rille._tokenizer(path, pattern, special, ids of special[, text]): returns a tokenizer. text: the content of a
 * tokenizer.json, which replaces the file. */
static int
tokenizer(lua_State *L)
{
    const char *who = "tokenizer", *path = text_at(L, 1, who);
    const char *pattern = lua_isnoneornil(L, 2) ? NULL : text_at(L, 2, who);
    int n;
    lua_settop(L, 5);
    size_t ntext;
    const char *text = lua_tolstring(L, 5, &ntext), *const *special = tokenizer_texts_read(L, 3, who, &n);
    const int64_t *ids = special_ids(L, 4, who, n);
    struct rille_tokenizer **t = kind_new(L, KIND_TOKENIZER, sizeof *t);
    check_as(L, who,
             text ? rille_tokenizer_of_text(path, text, ntext, t)
                  : rille_tokenizer_open(path, pattern, n, special, ids, t));
    warn_of_batches(L, path, *t);
    return 1;
}

/* rille._trainer(pattern, special): returns a trainer r. r:add(text) adds text; r:finish(size) returns a
 * tokenizer. */
static int
trainer(lua_State *L)
{
    const char *who = "tokenizer.train", *pattern = lua_isnoneornil(L, 1) ? NULL : text_at(L, 1, who);
    int n;
    lua_settop(L, 2);
    const char *const *special = tokenizer_texts_read(L, 2, who, &n);
    struct rille_trainer **r = kind_new(L, KIND_TRAINER, sizeof *r);
    check_as(L, who, rille_trainer_new(pattern, n, special, r));
    return 1;
}

static int
lua_trainer_add(lua_State *L)
{
    struct rille_trainer **r = kind_test(L, 1, KIND_TRAINER);
    size_t n;
    const char *text = luaL_checklstring(L, 2, &n);
    check_as(L, "tokenizer.train", rille_trainer_add(r ? *r : NULL, text, n));
    return 0;
}

static int
trainer_finish(lua_State *L)
{
    struct rille_trainer **r = kind_test(L, 1, KIND_TRAINER);
    struct rille_tokenizer **t = kind_new(L, KIND_TOKENIZER, sizeof *t);
    check_as(L, "tokenizer.train", rille_trainer_end(r ? *r : NULL, luaL_checkinteger(L, 2), t));
    return 1;
}

/* Reads the only option that encode and decode have, a boolean, from the table at 3. */
static bool
option_read(lua_State *L, const char *who, const char *name)
{
    if (lua_isnoneornil(L, 3)) return false;
    if (!lua_istable(L, 3)) complain(L, "%s: expected {%s = true}, found %s", who, name, what_is(L, 3));
    for (lua_pushnil(L); lua_next(L, 3); lua_pop(L, 1))
        if (lua_type(L, -2) != LUA_TSTRING || strcmp(lua_tostring(L, -2), name))
            complain(L, "%s: unknown option '%s'; expected one of: %s", who, luaL_tolstring(L, -2, NULL), name);
    lua_getfield(L, 3, name);
    if (!lua_isnil(L, -1) && !lua_isboolean(L, -1))
        complain(L, "%s: %s must be true or false, found %s", who, name, what_is(L, -1));
    bool yes = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return yes;
}

/* Appends n ids to the list at the top of the stack, which has *have entries; advances *have. */
static void
push_ids(lua_State *L, const uint32_t *id, size_t n, size_t *have)
{
    for (size_t i = 0; i < n; i++) {
        lua_pushinteger(L, id[i]);
        lua_rawseti(L, -2, (lua_Integer)++ * have);
    }
}

/* tok:encode(text, {add_special_tokens = false}): returns a list of ids. */
static int
encode(lua_State *L)
{
    struct rille_tokenizer *t = tokenizer_check(L, "encode");
    size_t n, nids = 0, nbefore = 0, nafter = 0, have = 0;
    const uint32_t *before = NULL, *after = NULL;
    if (lua_type(L, 2) != LUA_TSTRING) complain(L, "encode: expected a string, found %s", what_is(L, 2));
    if (option_read(L, "encode", "add_special_tokens"))
        check_as(L, "encode", rille_tokenizer_template(t, &before, &nbefore, &after, &nafter));
    const char *text = lua_tolstring(L, 2, &n);
    struct owner *own = owner_push(L, free);
    uint32_t *id = NULL;
    check_as(L, "encode", rille_tokenizer_encode(t, text, n, &id, &nids));
    own->thing = id;
    lua_createtable(L, (int)(nbefore + nids + nafter), 0);
    push_ids(L, before, nbefore, &have);
    push_ids(L, id, nids, &have);
    push_ids(L, after, nafter, &have);
    owner_drop(own);
    return 1;
}

/* Returns the ids of the list or tensor at 2, in a userdata on the stack. */
static int64_t *
ids_read(lua_State *L, size_t *n)
{
    struct rille_tensor *t = tensor_test(L, 2);
    if (t && !strcmp(rille_tensor_dtype(t), "i64")) {
        *n = (size_t)rille_tensor_numel(t);
        int64_t *id = scratch_new(L, "decode", sizeof *id * *n);
        at_line(L);
        check_as(L, "decode", rille_tensor_read(t, id));
        return id;
    }
    if (!lua_istable(L, 2)) complain(L, "decode: expected a list or an i64 tensor of ids, found %s", what_is(L, 2));
    *n = lua_rawlen(L, 2);
    int64_t *id = scratch_new(L, "decode", sizeof *id * *n);
    for (size_t i = 0; i < *n; i++, lua_pop(L, 1)) {
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        if (!whole_at(L, -1, &id[i])) complain(L, "decode: ids must be integers, found %s", what_is(L, -1));
    }
    return id;
}

static size_t
without_special(const struct rille_tokenizer *t, int64_t *id, size_t n)
{
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        if (!rille_tokenizer_is_special(t, id[i])) id[left++] = id[i];
    return left;
}

/* tok:decode(ids, {skip_special_tokens = false}): returns a string. */
static int
decode(lua_State *L)
{
    struct rille_tokenizer *t = tokenizer_check(L, "decode");
    size_t n, ntext;
    char *text = NULL;
    bool skip = option_read(L, "decode", "skip_special_tokens");
    int64_t *id = ids_read(L, &n);
    if (skip) n = without_special(t, id, n);
    struct owner *own = owner_push(L, free);
    check_as(L, "decode", rille_tokenizer_decode(t, n, id, &text, &ntext));
    own->thing = text;
    lua_pushlstring(L, text, ntext);
    owner_drop(own);
    return 1;
}

static int
lua_tokenizer_save(lua_State *L)
{
    struct rille_tokenizer *t = tokenizer_check(L, "save");
    if (lua_type(L, 2) != LUA_TSTRING) complain(L, "save: expected the name of a file, found %s", what_is(L, 2));
    check_as(L, "save", rille_tokenizer_save(t, text_at(L, 2, "save")));
    return 0;
}

/* Implements __index of a tokenizer: the field size, and the methods. */
static int
index_tokenizer(lua_State *L)
{
    const char *name = lua_tostring(L, 2);
    if (name && !strcmp(name, "size")) {
        lua_pushinteger(L, rille_tokenizer_size(tokenizer_check(L, "size")));
        return 1;
    }
    lua_getmetatable(L, 1);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, -2) == LUA_TNIL || !name || name[0] == '_')
        return complain(L, "a tokenizer has no '%s'; it has size, encode, decode, chat, save", name ? name : "?");
    return 1;
}

static int
to_text(lua_State *L)
{
    lua_pushfstring(L, "tokenizer of %I ids", (lua_Integer)rille_tokenizer_size(tokenizer_check(L, "tokenizer")));
    return 1;
}

void
tokenizers_open(lua_State *L)
{
    static const luaL_Reg methods[] = {{"encode", encode},
                                       {"decode", decode},
                                       {"save", lua_tokenizer_save},
                                       {"__index", index_tokenizer},
                                       {"__tostring", to_text},
                                       {"__gc", tokenizer_gc},
                                       {NULL, NULL}};
    static const luaL_Reg training[] = {
        {"add", lua_trainer_add}, {"finish", trainer_finish}, {"__gc", trainer_gc}, {NULL, NULL}};
    kind_make(L, KIND_TOKENIZER, "rille.tokenizer", methods);
    lua_setfield(L, -2, "_tokenizer_methods"); /* lua/tokenizer.lua adds methods written in Lua */
    kind_make(L, KIND_TRAINER, "rille.trainer", training);
    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    field_function(L, "_tokenizer", tokenizer);
    field_function(L, "_trainer", trainer);
}
