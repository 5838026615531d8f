/* lua_watch.c - finds uses of live numbers that Lua permits but a trace cannot record.
 *
 * lua/step/trace.lua traces a function with live numbers in place of numbers. Operators record a live number, and most
 * other uses are errors. But Lua calls no metamethod when it compares a live number with a number for equality, or uses
 * it as the key of a table. So a hook runs before each instruction. lua/step/bytecode.lua lists, by line, the registers
 * that such instructions read. If one of them holds a live number, the number cannot stay live. A register may still
 * hold the number of an earlier instruction of the function; then the step is traced again, which is slower but right.
 */
#include "shell/bind/step/lua_watch.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/step/lua_conditions.h"

static const char tests_key; /* registry key of {function -> {line -> registers, one a byte}} */

/* Returns true if one of these registers of the running function holds a live number. */
static bool
holds_live(lua_State *L, lua_Debug *ar, const char *registers, size_t n)
{
    bool live = false;
    for (size_t i = 0; i < n && !live; i++) {
        if (!lua_getlocal(L, ar, (unsigned char)registers[i] + 1)) continue;
        live = kind_test(L, -1, KIND_LIVE);
        lua_pop(L, 1);
    }
    return live;
}

/* Pushes the registers that instructions of the function at the top of the stack read: a table by line. */
static void
push_tests(lua_State *L)
{
    int fn = lua_gettop(L);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &tests_key);
    lua_pushvalue(L, fn);
    if (lua_rawget(L, -2) == LUA_TTABLE) return;
    push_hook(L, "tests");
    lua_pushvalue(L, fn);
    lua_call(L, 1, 1);
    lua_pushvalue(L, fn);
    lua_pushvalue(L, -2);
    lua_rawset(L, fn + 1);
}

/* Clears the live numbers that an earlier call left in the registers of a function that begins now. */
static void
clear_registers(lua_State *L, lua_Debug *ar)
{
    lua_getinfo(L, "fu", ar);
    if (lua_iscfunction(L, -1)) return;
    for (int n = ar->nparams + 1; lua_getlocal(L, ar, n); n++) {
        bool live = kind_test(L, -1, KIND_LIVE);
        lua_pop(L, 1);
        if (!live) continue;
        lua_pushnil(L);
        lua_setlocal(L, ar, n);
    }
}

static void
check_registers(lua_State *L, lua_Debug *ar)
{
    size_t n;
    lua_getinfo(L, "lf", ar);
    push_tests(L);
    lua_rawgeti(L, -1, ar->currentline);
    const char *registers = lua_tolstring(L, -1, &n);
    if (registers) shell_of(L)->live_used = holds_live(L, ar, registers, n);
}

static void
watch_code(lua_State *L, lua_Debug *ar)
{
    int top = lua_gettop(L);
    if (!shell_of(L)->watching) { /* a coroutine that was made during a search still has the hook */
        lua_sethook(L, NULL, 0, 0);
        return;
    }
    if (shell_of(L)->live_used || !lua_checkstack(L, 16)) return;
    if (ar->event == LUA_HOOKCOUNT)
        check_registers(L, ar);
    else
        clear_registers(L, ar);
    lua_settop(L, top);
}

/* rille._watch(): begins to look for uses of live numbers in the functions that this coroutine runs. Returns two values
 * for rille._watched: whether no other search is in progress, and whether that search has found a use. */
static int
watch_begin(lua_State *L)
{
    struct shell *sh = shell_of(L);
    bool first = !sh->watching || lua_gethook(L) != watch_code;
    lua_pushboolean(L, first);
    lua_pushboolean(L, !first && sh->live_used);
    sh->live_used = false;
    sh->watching = true;
    if (!first) return 2;
    sh->before = (struct lua_hook){lua_gethook(L), lua_gethookmask(L), lua_gethookcount(L)};
    lua_sethook(L, watch_code, LUA_MASKCOUNT | LUA_MASKCALL, 1);
    return 2;
}

/* rille._watched(first, used): ends the search that returned these values. Returns true if a use was found, or if
 * another hook has ended the search. */
static int
watch_end(lua_State *L)
{
    struct shell *sh = shell_of(L);
    bool first = lua_toboolean(L, 1), own = lua_gethook(L) == watch_code, used = sh->live_used || !own;
    sh->live_used = used || lua_toboolean(L, 2);
    if (first) sh->watching = false;
    if (first && own) lua_sethook(L, sh->before.hook, sh->before.mask, sh->before.count);
    if (first && own && sh->unhooked) sh->unhooked(L);
    lua_pushboolean(L, used);
    return 1;
}

void
watch_open(lua_State *L)
{
    static const luaL_Reg functions[] = {{"_watch", watch_begin}, {"_watched", watch_end}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    lua_newtable(L);
    lua_newtable(L);
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &tests_key);
}
