/* lua_conditions.c - checks, before a compiled step reuses a trace, that the values which the traced function read
 * have not changed.
 *
 * A place is where a value was read: a field of a table, an upvalue and the like. A trace has a list of places with
 * their values (lua/step/trace.lua). For k = 1, 4, ... up to list.n, list[k] is the object that contains the value (the
 * holder), list[k + 1] the key in it, and list[k + 2] the value. Each call of the step compares the list in C, and
 * calls lua/step/trace.lua only for values that differ. lua/step/trace.lua also makes the lists. */
#include "shell/bind/step/lua_conditions.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/shell.h"

#include <string.h>

/* Registry keys. being_made: the list of the places that the trace in progress has read, with their values.
 * hooks: the functions {begin =, enter =, done =, ...} of lua/step/trace.lua. */
static const char being_made, hooks;
/* Keys and values that stand for something else.
 *   keys_key, meta_key     keys of the places "hash of the keys" and "metatable" of a table
 *   mode_key               key of the place "autocast dtype, and whether gradients are recorded"; the table is any
 *   digest_key             key of the place "hash of the numbers, texts and booleans" of a long list
 *   live_key, whole_key    values: the place may hold any float, or any integer that a double represents */
static const char keys_key, meta_key, mode_key, digest_key, live_key, whole_key;

void
push_hook(lua_State *L, const char *name)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &hooks);
    if (lua_isnil(L, -1)) {
        lua_getglobal(L, "require");
        lua_pushliteral(L, "rille.step.trace");
        lua_call(L, 1, 0);
        lua_pop(L, 1);
        lua_rawgetp(L, LUA_REGISTRYINDEX, &hooks);
    }
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
}

/* Calls begin(fn, args, traces, near) of lua/step/trace.lua, and stores the list that it returns; nil: none. Pops
 * the value at the top of the stack, and passes it as near: the list of a trace for which only numbers have
 * changed, or nil. */
static void
begin_list(lua_State *L, int pattern)
{
    push_hook(L, "begin");
    lua_insert(L, -2);
    lua_getiuservalue(L, 1, 1);
    lua_pushvalue(L, pattern);
    lua_getiuservalue(L, 1, 2);
    lua_rotate(L, -4, 3);
    lua_call(L, 4, 1);
    lua_setiuservalue(L, 1, GRAPH_CONDITIONS);
}

void
conditions_sizes(lua_State *L, int args, int last)
{
    push_hook(L, "sizes");
    lua_getiuservalue(L, 1, 2);
    lua_pushinteger(L, args - 1);
    for (int i = 2; i <= last; i++) lua_pushvalue(L, i);
    lua_call(L, last + 1, 0);
}

void
conditions_begin(lua_State *L, int pattern)
{
    lua_pushnil(L);
    begin_list(L, pattern);
}

bool
conditions_begin_live(lua_State *L, int pattern)
{
    begin_list(L, pattern);
    bool begun = lua_getiuservalue(L, 1, GRAPH_CONDITIONS) == LUA_TTABLE;
    lua_pop(L, 1);
    return begun;
}

void
conditions_repeat(lua_State *L)
{
    lua_getiuservalue(L, 1, GRAPH_CONDITIONS);
    field_flag(L, "repeats", true);
    lua_pop(L, 1);
}

void
conditions_none(lua_State *L)
{
    lua_pushnil(L);
    lua_setiuservalue(L, 1, GRAPH_CONDITIONS);
}

/* Calls a function of lua/step/trace.lua with the list of the trace in progress, if there is one, and two more
 * arguments. Returns Lua's status code. */
static int
tell_list(lua_State *L, const char *name, bool flag, int nresult)
{
    push_hook(L, name);
    if (lua_getiuservalue(L, 1, GRAPH_CONDITIONS) == LUA_TNIL) {
        lua_pop(L, 2);
        return 0;
    }
    lua_pushboolean(L, flag);
    lua_getiuservalue(L, 1, 2);
    return lua_pcall(L, 3, nresult, 0);
}

int
conditions_enter(lua_State *L)
{
    lua_getiuservalue(L, 1, GRAPH_CONDITIONS);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &being_made);
    return tell_list(L, "enter", false, 0);
}

int
conditions_leave_whole(lua_State *L, int failed)
{
    int status = tell_list(L, "leave_whole", failed != 0, 0);
    if (failed && status) lua_pop(L, 1);
    return failed ? failed : status;
}

int
conditions_end(lua_State *L, int failed)
{
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &being_made);
    int status = tell_list(L, "done", failed != 0, 0);
    if (failed && status) lua_pop(L, 1);
    return failed ? failed : status;
}

void
conditions_numbers(lua_State *L, bool former)
{
    if (tell_list(L, "set_numbers", former, 0)) lua_pop(L, 1);
}

bool
conditions_end_live(lua_State *L, bool good)
{
    bool proven = !tell_list(L, "proven", good, 1) && lua_toboolean(L, -1);
    lua_pop(L, 1);
    return proven;
}

static void
follow_field(lua_State *L)
{
    push_hook(L, "reads_field");
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_call(L, 2, 0);
}

void
conditions_give(lua_State *L)
{
    lua_getiuservalue(L, 1, GRAPH_CONDITIONS);
    lua_setfield(L, -2, "conditions");
}

/* ---- comparing ---- */

static uint64_t
digest_word(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0xff51afd7ed558ccdULL;
    return h ^ h >> 32;
}

/* Returns a hash of the table key at -2. Of a text, it is the address: the code that reads a field has the field's name
 * as a constant, so a text of another key has another address. */
static uint64_t
hash_key(lua_State *L)
{
    const void *address = lua_topointer(L, -2);
    if (address) return digest_word(0, (uint64_t)(uintptr_t)address);
    double real = lua_tonumber(L, -2);
    uint64_t word;
    memcpy(&word, &real, sizeof word);
    return digest_word((uint64_t)lua_type(L, -2), word + (uint64_t)lua_toboolean(L, -2));
}

/* Returns a hash of the keys of the table at i, which does not depend on their order. */
static lua_Integer
keys_digest(lua_State *L, int i)
{
    /* maximum length of a list whose keys are hashed; of a longer list, only the length is compared */
    enum { LARGE = 256 };
    lua_Integer length = (lua_Integer)lua_rawlen(L, i);
    uint64_t h = 0;
    if (length > LARGE) return length;
    for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) h += hash_key(L);
    return (lua_Integer)h;
}

/* Returns the hash h, updated with the number, text or boolean at the top of the stack. Other values do not
 * change h, because the list of conditions has an entry for each of them. */
static uint64_t
digest_value(lua_State *L, uint64_t h)
{
    size_t n = 0;
    uint64_t word = (uint64_t)(lua_isinteger(L, -1) ? lua_tointeger(L, -1) : lua_toboolean(L, -1));
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &n) : NULL;
    double real = lua_tonumber(L, -1);
    if (lua_type(L, -1) == LUA_TNUMBER && !lua_isinteger(L, -1)) memcpy(&word, &real, sizeof word);
    h = digest_word(h, (uint64_t)lua_type(L, -1) << 1 | (uint64_t)lua_isinteger(L, -1));
    for (size_t k = 0; k < n; k++) h = digest_word(h, (unsigned char)text[k]);
    return digest_word(h, text ? n : word);
}

/* Returns a hash of the numbers, texts and booleans of the list at i. */
static lua_Integer
list_digest(lua_State *L, int i)
{
    lua_Integer n = (lua_Integer)lua_rawlen(L, i);
    uint64_t h = (uint64_t)n;
    for (lua_Integer k = 1; k <= n; k++, lua_pop(L, 1)) {
        lua_rawgeti(L, i, k);
        h = digest_value(L, h);
    }
    return (lua_Integer)h;
}

/* Pushes a field of the table at h; the field's name is at h + 1. Follows __index tables, but calls no __index
 * function. */
static void
push_field(lua_State *L, int h)
{
    lua_pushvalue(L, h);
    for (;;) {
        lua_pushvalue(L, h + 1);
        if (lua_rawget(L, h + 2) != LUA_TNIL) break;
        if (luaL_getmetafield(L, h + 2, "__index") != LUA_TTABLE) break;
        lua_replace(L, h + 2);
        lua_settop(L, h + 2);
    }
    lua_settop(L, h + 3);
    lua_replace(L, h + 2);
}

/* Pushes a field of the tensor at h; the field's name is at h + 1. For the gradient, which is a tensor, pushes
 * true and frees the new handle, because a step overwrites a gradient only if no other handle to it exists. */
static void
push_tensor_field(lua_State *L, int h)
{
    lua_pushvalue(L, h + 1);
    lua_gettable(L, h);
    struct rille_tensor **gradient = kind_test(L, -1, KIND_TENSOR);
    if (!gradient) return;
    rille_tensor_free(gradient);
    lua_pushboolean(L, true);
}

/* Pushes the modes of the session that the operators of a trace depend on, as a text. */
static void
push_mode(lua_State *L)
{
    struct rille_session *s = shell_of(L)->session;
    const char *dtype = rille_autocast_dtype(s);
    bool records = rille_grad_mode(s, true);
    rille_grad_mode(s, records);
    lua_pushfstring(L, "%s%s", dtype ? dtype : "", records ? "" : " no_grad");
}

/* Pushes the present value of a place, where the trace read a value: a table's field, a function's upvalue and the
 * like. The table, function or tensor is at h, the key of the field or upvalue at h + 1. */
static void
push_place(lua_State *L, int h)
{
    if (lua_type(L, h) == LUA_TFUNCTION) {
        if (!lua_getupvalue(L, h, (int)lua_tointeger(L, h + 1))) lua_pushnil(L);
        return;
    }
    const void *key = lua_touserdata(L, h + 1);
    if (!key && lua_istable(L, h)) {
        push_field(L, h);
    } else if (key == &keys_key) {
        lua_pushinteger(L, keys_digest(L, h));
    } else if (key == &digest_key) {
        lua_pushinteger(L, list_digest(L, h));
    } else if (key == &mode_key) {
        push_mode(L);
    } else if (key == &meta_key) {
        if (!lua_getmetatable(L, h)) lua_pushnil(L);
    } else if (lua_istable(L, h)) {
        push_field(L, h);
    } else {
        push_tensor_field(L, h);
    }
}

/* Raises an error unless the value at i is a table, a function or a tensor, which contain the places that a trace
 * reads. */
static void
check_holder(lua_State *L, int i)
{
    if (!lua_isfunction(L, i) && !tensor_test(L, i)) luaL_checktype(L, i, LUA_TTABLE);
}

bool
conditions_same(lua_State *L)
{
    if (lua_type(L, -1) != LUA_TNUMBER || lua_type(L, -2) != LUA_TNUMBER) return lua_rawequal(L, -1, -2);
    if (lua_isinteger(L, -1) || lua_isinteger(L, -2))
        return lua_isinteger(L, -1) && lua_isinteger(L, -2) && lua_rawequal(L, -1, -2);
    lua_Number a = lua_tonumber(L, -1), b = lua_tonumber(L, -2);
    return !memcmp(&a, &b, sizeof a);
}

/* Returns true if the value at -2 fits the recorded value at -1: equals it, or is a number if the recorded value stands
 * for any number. */
static bool
is_as_it_was(lua_State *L)
{
    const void *mark = lua_touserdata(L, -1);
    const lua_Integer most = (lua_Integer)1 << 53;
    if (mark == &live_key) return lua_type(L, -2) == LUA_TNUMBER && !lua_isinteger(L, -2);
    if (mark == &whole_key)
        return lua_isinteger(L, -2) && lua_tointeger(L, -2) >= -most && lua_tointeger(L, -2) <= most;
    return conditions_same(L);
}

/* Compares the places from, from + 3, ... of the list at the top of the stack. A place is where the trace read a
 * value. Returns the index of the first place whose present value is not identical to the recorded value; 0:
 * none. */
static lua_Integer
find_changed(lua_State *L, lua_Integer from)
{
    int list = lua_gettop(L);
    luaL_checkstack(L, 8, "graph");
    lua_getfield(L, list, "n");
    lua_Integer n = lua_tointeger(L, -1), k = from;
    bool same = true;
    lua_pop(L, 1);
    for (; same && k <= n; k += 3) {
        lua_rawgeti(L, list, k);
        lua_rawgeti(L, list, k + 1);
        check_holder(L, list + 1);
        push_place(L, list + 1);
        lua_rawgeti(L, list, k + 2);
        same = is_as_it_was(L);
        lua_settop(L, list);
    }
    return same ? 0 : k - 3;
}

/* Asks lua/step/trace.lua whether the present value of place k (where the trace read a value) equals the recorded
 * value. */
static bool
is_equal(lua_State *L, lua_Integer k)
{
    push_hook(L, "holds");
    lua_pushvalue(L, -2);
    lua_pushinteger(L, k);
    lua_call(L, 2, 1);
    bool equal = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return equal;
}

bool
conditions_hold(lua_State *L)
{
    lua_getfield(L, -1, "conditions");
    lua_Integer k = find_changed(L, 1);
    while (k && is_equal(L, k)) k = find_changed(L, k + 3);
    lua_pop(L, 1);
    return !k;
}

/* ---- for lua/step/trace.lua ---- */

/* rille._conditions(): returns the list of the trace in progress, or nil. rille._conditions{begin =, ...}: sets the
 * functions that this file calls. */
static int
conditions(lua_State *L)
{
    if (lua_istable(L, 1)) {
        lua_settop(L, 1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &hooks);
        return 0;
    }
    if (!rille_tracing(shell_of(L)->session)) return 0;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &being_made);
    return 1;
}

/* rille._first_changed(list, from): returns the index of the first place, from index `from` on, whose value is not
 * identical to the recorded one; nil: none. */
static int
first_changed(lua_State *L)
{
    lua_Integer from = luaL_checkinteger(L, 2);
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_Integer k = find_changed(L, from);
    if (!k) return 0;
    lua_pushinteger(L, k);
    return 1;
}

/* rille._place(holder, key): returns the present value of a place, such as field `key` of the table `holder`. */
static int
place_value(lua_State *L)
{
    lua_settop(L, 2);
    check_holder(L, 1);
    push_place(L, 1);
    return 1;
}

void
conditions_open(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"_conditions", conditions}, {"_first_changed", first_changed}, {"_place", place_value}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    shell_of(L)->follow_field = follow_field;
    lua_pushlightuserdata(L, (void *)&keys_key);
    lua_setfield(L, -2, "_keys_key");
    lua_pushlightuserdata(L, (void *)&mode_key);
    lua_setfield(L, -2, "_mode_key");
    lua_pushlightuserdata(L, (void *)&meta_key);
    lua_setfield(L, -2, "_meta_key");
    lua_pushlightuserdata(L, (void *)&digest_key);
    lua_setfield(L, -2, "_digest_key");
    lua_pushlightuserdata(L, (void *)&live_key);
    lua_setfield(L, -2, "_live_key");
    lua_pushlightuserdata(L, (void *)&whole_key);
    lua_setfield(L, -2, "_whole_key");
}
