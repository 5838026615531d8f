/* lua_conditions.c - the conditions of a trace besides tensors and numbers: functions that return true while the
 * trace is valid.
 *
 * Modules in Lua add functions to the list of the trace in progress (lua/trace.lua). The finished trace keeps the
 * list, and each call evaluates it. */
#include "shell/bind/shell.h"

/* Registry keys: the list of the trace in progress; the function that prepares each new list. */
static const char being_made, maker;

/* Calls each function of the list at index 1 with the value at index 2. */
static int
conditions_tell(lua_State *L)
{
    lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
    for (lua_Integer k = 1; k <= n; k++) {
        lua_rawgeti(L, 1, k);
        lua_pushvalue(L, 2);
        lua_call(L, 1, 0);
    }
    return 0;
}

/* Pops the list at the top and calls its functions with `when`; returns Lua's code. */
static int
condition_told(lua_State *L, const char *when)
{
    lua_pushcfunction(L, conditions_tell);
    lua_insert(L, -2);
    lua_pushstring(L, when);
    return lua_pcall(L, 2, 0, 0);
}

void
conditions_begin(lua_State *L)
{
    lua_newtable(L);
    int list = lua_gettop(L);
    lua_getiuservalue(L, 1, 2);
    lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
    for (lua_Integer k = 1; k <= n; k++) {
        lua_rawgeti(L, -1, k);
        lua_getfield(L, -1, "conditions");
        if (condition_told(L, "again")) lua_pop(L, 1); /* the condition then lacks the recorded state: costs a trace */
        lua_pop(L, 1);
    }
    lua_setfield(L, -2, "traces");
    lua_rawgetp(L, LUA_REGISTRYINDEX, &maker);
    lua_pushvalue(L, -2);
    if (lua_isnil(L, -2) || lua_pcall(L, 1, 0, 0)) lua_settop(L, list);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &being_made);
}

int
conditions_end(lua_State *L, int failed)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &being_made);
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, 1, GRAPH_CONDITIONS);
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &being_made);
    if (failed) {
        lua_pop(L, 1);
        return failed;
    }
    return condition_told(L, "traced");
}

void
conditions_give(lua_State *L)
{
    lua_getiuservalue(L, 1, GRAPH_CONDITIONS);
    lua_setfield(L, -2, "conditions");
}

bool
conditions_hold(lua_State *L)
{
    bool hold = true;
    lua_getfield(L, -1, "conditions");
    lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
    for (lua_Integer k = 1; hold && k <= n; k++) {
        lua_rawgeti(L, -1, k);
        lua_call(L, 0, 1);
        hold = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return hold;
}

/* rille._conditions(): the list of the trace in progress, or nil. With a function: each new list is passed to it
 * first. */
static int
conditions(lua_State *L)
{
    if (lua_isfunction(L, 1)) {
        lua_settop(L, 1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &maker);
        return 0;
    }
    if (!rille_tracing(shell_of(L)->session)) return 0;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &being_made);
    return 1;
}

/* rille._first_changed(list, i): the first k of i, i + 3, ... up to list.n for which list[k][list[k + 1]] is not
 * list[k + 2]; nil: none. Checks hundreds of fields at each call of a step, in a sixth of the time that Lua takes. */
static int
first_changed(lua_State *L)
{
    lua_Integer k = luaL_checkinteger(L, 2);
    lua_settop(L, 1);
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_getfield(L, 1, "n");
    for (lua_Integer n = lua_tointeger(L, 2); k <= n; k += 3) {
        lua_rawgeti(L, 1, k);
        lua_rawgeti(L, 1, k + 1);
        lua_gettable(L, -2);
        lua_rawgeti(L, 1, k + 2);
        bool same = lua_rawequal(L, -1, -2);
        lua_settop(L, 2);
        if (same) continue;
        lua_pushinteger(L, k);
        return 1;
    }
    return 0;
}

void
conditions_open(lua_State *L)
{
    lua_pushcfunction(L, conditions);
    lua_setfield(L, -2, "_conditions");
    lua_pushcfunction(L, first_changed);
    lua_setfield(L, -2, "_first_changed");
}
