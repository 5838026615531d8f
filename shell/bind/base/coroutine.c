/* coroutine.c - keeps two modes separate for each coroutine: the autocast dtype, and whether the coroutine is in a
 * region whose activations are recomputed.
 *
 * Both modes are settings of the session. A function such as rille.autocast sets a mode until the function ends.
 * When a coroutine yields, its modes are stored, and the modes of the coroutine that resumed it are restored. When
 * the coroutine is resumed, its stored modes are set again. A new coroutine starts with the modes of its first
 * resumer. For this, coroutine.resume, wrap and close are replaced by functions that switch the modes. In a
 * program that contains interrupt.c, the functions also report the running coroutines to interrupt.c. */
#include "shell/bind/base/coroutine.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/shell.h"

#include <string.h>

struct modes {
    char autocast[8]; /* dtype of autocast; "": off */
    bool recompute;
};

static const char kept; /* registry key of a table: suspended coroutine -> its modes */

static struct modes
modes_now(const struct shell *sh)
{
    struct modes m = {.autocast = ""};
    if (!sh->session) return m;
    const char *dtype = rille_autocast_dtype(sh->session);
    if (dtype) strncpy(m.autocast, dtype, sizeof m.autocast - 1);
    m.recompute = rille_recomputes(sh->session);
    return m;
}

static void
modes_set(const struct shell *sh, const struct modes *m)
{
    if (!sh->session) return;
    rille_autocast(sh->session, m->autocast[0] ? m->autocast : NULL);
    rille_recompute(sh->session, m->recompute);
}

/* Pushes the stored modes (autocast, recompute) of the suspended coroutine at i, or nil. */
static int
modes_push(lua_State *L, int i)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &kept);
    lua_pushvalue(L, i);
    int type = lua_rawget(L, -2);
    lua_remove(L, -2);
    return type;
}

/* Stores the current modes (autocast, recompute) for the coroutine at i if the coroutine has yielded. Removes its
 * stored modes if no mode is set or the coroutine has ended. */
static void
modes_keep(lua_State *L, int i, lua_State *co)
{
    struct modes m = modes_now(shell_of(L));
    bool any = lua_status(co) == LUA_YIELD && (m.autocast[0] || m.recompute);
    if (!any && modes_push(L, i) == LUA_TNIL) {
        lua_pop(L, 1);
        return;
    }
    if (!any) lua_pop(L, 1);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &kept);
    lua_pushvalue(L, i);
    if (any)
        memcpy(lua_newuserdatauv(L, sizeof m, 0), &m, sizeof m);
    else
        lua_pushnil(L);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

/* Sets the modes (autocast, recompute) of the coroutine at i, which is about to run. Returns the modes of the
 * caller, which leave_coroutine() restores. */
static struct modes
enter_coroutine(lua_State *L, int i, lua_State *co)
{
    const struct shell *sh = shell_of(L);
    static const struct modes none;
    struct modes before = modes_now(sh);
    if (lua_status(co) == LUA_YIELD) {
        modes_push(L, i);
        modes_set(sh, lua_isnil(L, -1) ? &none : lua_touserdata(L, -1));
        lua_pop(L, 1);
    }
    if (sh->entered) sh->entered(co);
    return before;
}

static void
leave_coroutine(lua_State *L, int i, lua_State *co, const struct modes *before)
{
    const struct shell *sh = shell_of(L);
    if (sh->left) sh->left();
    modes_keep(L, i, co);
    modes_set(sh, before);
}

/* Implements coroutine.resume and close: calls Lua's original function (upvalue 1) between enter_coroutine() and
 * leave_coroutine(). */
static int
call_within(lua_State *L)
{
    lua_State *co = lua_tothread(L, 1);
    struct modes before = {.autocast = ""};
    luaL_checkstack(L, LUA_MINSTACK, "too many arguments to resume");
    if (!co && !lua_gettop(L)) lua_pushnil(L);
    lua_pushvalue(L, 1);
    lua_insert(L, 1); /* keeps the coroutine for leave_coroutine() */
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 2);
    if (co) before = enter_coroutine(L, 1, co);
    int code = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0);
    if (co) leave_coroutine(L, 1, co, &before);
    return code ? lua_error(L) : lua_gettop(L) - 1;
}

/* Implements the function that coroutine.wrap returns; upvalue 1 is the coroutine. */
static int
wrapped(lua_State *L)
{
    lua_State *co = lua_tothread(L, lua_upvalueindex(1));
    int nres = 0, narg = lua_gettop(L);
    if (!lua_checkstack(co, narg)) return luaL_error(L, "too many arguments to resume");
    luaL_checkstack(L, LUA_MINSTACK, "too many arguments to resume");
    struct modes before = enter_coroutine(L, lua_upvalueindex(1), co);
    lua_xmove(L, co, narg);
    int code = lua_resume(co, L, narg, &nres);
    bool failed = code != LUA_OK && code != LUA_YIELD;
    if (failed && lua_status(co) != LUA_OK && lua_status(co) != LUA_YIELD) lua_resetthread(co);
    leave_coroutine(L, lua_upvalueindex(1), co, &before);
    if (failed) {
        lua_xmove(co, L, 1);
        return lua_error(L);
    }
    luaL_checkstack(L, nres + 1, "too many results to resume");
    lua_xmove(co, L, nres);
    return nres;
}

static int
wrap(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_State *co = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
    lua_pushcclosure(L, wrapped, 1);
    return 1;
}

void
coroutine_open(lua_State *L)
{
    static const char *const within[] = {"resume", "close"};
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    field_text(L, "__mode", "k");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &kept);
    if (lua_getglobal(L, "coroutine") == LUA_TTABLE) {
        for (int k = 0; k < 2; k++) {
            lua_getfield(L, -1, within[k]);
            lua_pushcclosure(L, call_within, 1);
            lua_setfield(L, -2, within[k]);
        }
        field_function(L, "wrap", wrap);
    }
    lua_pop(L, 1);
}
