/* lua_live.c - rille.live(fn): a number that fn computes anew before each run; and counters of runs.
 *
 * The core calls back during a call from Lua, and cannot handle Lua errors. So fn runs in a protected call; its
 * error is stored, the run fails, and the function that requested the run raises the error. */
#include "shell/bind/step/lua_live.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/shell.h"

#include <stdlib.h>

struct live {
    struct shell *shell;
    int function; /* registry reference of the function, or of a counter's {table, key} */
};

/* Calls the function in argument 1, and checks that its result is a number. */
static int
live_number(lua_State *L)
{
    lua_call(L, 0, 1);
    if (lua_type(L, -1) != LUA_TNUMBER)
        return complain(L, "live: the function must return a number, found %s", what_is(L, -1));
    return 1;
}

static int
live_ask(void *arg, double *out)
{
    struct live *live = arg;
    lua_State *L = live->shell->running;
    if (!lua_checkstack(L, 4)) return 1;
    lua_pushcfunction(L, live_number);
    lua_rawgeti(L, LUA_REGISTRYINDEX, live->function);
    live->shell->asking = true;
    int code = lua_pcall(L, 1, 1, 0);
    live->shell->asking = false;
    if (code) {
        live_fail(L);
        return 1;
    }
    *out = lua_tonumber(L, -1);
    lua_pop(L, 1);
    return 0;
}

/* ---- counters ---- */

lua_Integer
count_field(lua_State *L, int i, int more)
{
    i = lua_absindex(L, i);
    lua_pushvalue(L, i + 1);
    lua_rawget(L, i);
    lua_Integer n = lua_tointeger(L, -1) + more;
    lua_pop(L, 1);
    lua_pushvalue(L, i + 1);
    lua_pushinteger(L, n);
    lua_rawset(L, i);
    return n;
}

static lua_Integer
count_more(struct live *live, int more)
{
    lua_State *L = live->shell->running;
    int top = lua_gettop(L);
    if (!lua_checkstack(L, 8)) return 0;
    lua_rawgeti(L, LUA_REGISTRYINDEX, live->function);
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    lua_Integer n = count_field(L, -2, more);
    lua_settop(L, top);
    return n;
}

static int
counter_ask(void *arg, double *out)
{
    *out = (double)count_more(arg, 1);
    return 0;
}

static void
counter_undo(void *arg)
{
    count_more(arg, -1);
}

static void
live_drop(void *arg)
{
    struct live *live = arg;
    luaL_unref(live->shell->main, LUA_REGISTRYINDEX, live->function);
    free(live);
}

/* Pushes a live number whose source (function or counter) is the value at index 1. */
static struct rille_live *
live_push(lua_State *L, rille_live_fn *ask)
{
    struct rille_live **slot = kind_new(L, KIND_LIVE, sizeof(struct rille_live *));
    struct live *live = malloc(sizeof *live);
    if (!live) luaL_error(L, "not enough memory");
    live->shell = shell_of(L);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    lua_pushvalue(L, 1);
    live->function = luaL_ref(L, LUA_REGISTRYINDEX);
    int code = rille_live_new(live->shell->session, ask, live_drop, live, slot);
    if (code) live_drop(live);
    check(L, code);
    return *slot;
}

static int
live_new(lua_State *L)
{
    if (!lua_isfunction(L, 1))
        return complain(L, "live: expected a function that returns a number, found %s", what_is(L, 1));
    live_push(L, live_ask);
    return 1;
}

/* ---- arithmetic: a live number computed from others ---- */

/* Computes a live number from its operands. Upvalues: Lua's operator; two operands, each a number or the function
 * of a live number. */
static int
live_compute(lua_State *L)
{
    for (int i = 2; i <= 3; i++) {
        lua_pushvalue(L, lua_upvalueindex(i));
        if (lua_isfunction(L, -1)) lua_call(L, 0, 1);
        if (lua_type(L, -1) != LUA_TNUMBER)
            return complain(L, "live: the function must return a number, found %s", what_is(L, -1));
    }
    int op = (int)lua_tointeger(L, lua_upvalueindex(1));
    if (op == LUA_OPUNM) lua_pop(L, 1);
    lua_arith(L, op);
    return 1;
}

/* Pushes the value at i in the form that live_compute() accepts: a number, or the function of a live number. */
static void
push_live_operand(lua_State *L, int i)
{
    if (lua_type(L, i) == LUA_TNUMBER)
        lua_pushvalue(L, i);
    else if (!kind_test(L, i, KIND_LIVE) || lua_getiuservalue(L, i, 1) != LUA_TFUNCTION)
        complain(L, "live: expected a number, found %s", what_is(L, i));
}

/* Implements arithmetic on live numbers. Upvalues: the operator, and its name as a metamethod. */
static int
live_arithmetic(lua_State *L)
{
    lua_settop(L, 2);
    if (tensor_test(L, 2)) {
        luaL_getmetafield(L, 2, lua_tostring(L, lua_upvalueindex(2)));
        lua_insert(L, 1);
        lua_call(L, 2, 1);
        return 1;
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    push_live_operand(L, 1);
    push_live_operand(L, 2);
    lua_pushcclosure(L, live_compute, 3);
    lua_replace(L, 1);
    lua_settop(L, 1);
    lua_pushvalue(L, 1);
    lua_call(L, 0, 1);
    bool whole = lua_isinteger(L, -1);
    struct rille_live *live = live_push(L, live_ask);
    if (whole) rille_live_whole(live);
    return 1;
}

static void
add_live_arithmetic(lua_State *L)
{
    static const struct {
        const char *name;
        int op;
    } all[] = {{"__add", LUA_OPADD}, {"__sub", LUA_OPSUB}, {"__mul", LUA_OPMUL},   {"__div", LUA_OPDIV},
               {"__mod", LUA_OPMOD}, {"__pow", LUA_OPPOW}, {"__idiv", LUA_OPIDIV}, {"__unm", LUA_OPUNM}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lua_pushinteger(L, all[i].op);
        lua_pushstring(L, all[i].name);
        lua_pushcclosure(L, live_arithmetic, 2);
        lua_setfield(L, -2, all[i].name);
    }
}

/* rille._live_whole(live): marks a live number as an integer, so that operators promote it like an integer, not a
 * float; returns the live number. */
static int
live_whole(lua_State *L)
{
    struct rille_live **live = kind_test(L, 1, KIND_LIVE);
    if (!live) return complain(L, "live: expected a live number (made by rille.live), found %s", what_is(L, 1));
    rille_live_whole(*live);
    return 1;
}

/* rille._counter(table, key): counts the calls of the step being traced in table[key]; calls that fail are not
 * counted. */
static int
counter_new(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checkstring(L, 2);
    lua_settop(L, 2);
    lua_createtable(L, 2, 0);
    lua_insert(L, 1);
    lua_rawseti(L, 1, 2);
    lua_rawseti(L, 1, 1);
    struct rille_live *counter = live_push(L, counter_ask);
    rille_live_undo(counter, counter_undo);
    check(L, rille_live_ask(counter));
    return 1;
}

static int
live_gc(lua_State *L)
{
    struct rille_live **live = kind_test(L, 1, KIND_LIVE);
    if (live && *live) rille_live_free(live);
    return 0;
}

static int
live_index(lua_State *L)
{
    return complain(L, "a live number has no fields, found %s", what_is(L, 2));
}

static int
live_tostring(lua_State *L)
{
    /* a use that a trace cannot record: the text may decide what the traced function computes */
    shell_of(L)->live_used = true;
    lua_pushstring(L, kind_test(L, 1, KIND_LIVE) ? "live number" : what_is(L, 1));
    return 1;
}

void
live_open(lua_State *L)
{
    static const luaL_Reg meta[] = {{"__gc", live_gc},          {"__close", live_gc},          {"__index", live_index},
                                    {"__newindex", live_index}, {"__tostring", live_tostring}, {NULL, NULL}};
    kind_make(L, KIND_LIVE, "rille.live", meta);
    add_live_arithmetic(L);
    lua_pop(L, 1);
    field_function(L, "_live_whole", live_whole);
    field_function(L, "live", live_new);
    field_function(L, "_counter", counter_new);
}
