/* shell.c - struct shell, which exists once per Lua state: opens and closes the session, makes kinds of userdata,
 * checks the keys of tables, and allocates memory that Lua owns. */
#include "shell/bind/base/field.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/names.h"
#include "shell/bind/base/shell.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- kinds of userdata ---- */

static const char kind_key[NKIND]; /* registry keys of the metatables */

void *
kind_new(lua_State *L, enum kind kind, size_t size)
{
    void *u = lua_newuserdatauv(L, size, kind == KIND_GRAPH ? 4 : kind == KIND_LIVE);
    memset(u, 0, size);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &kind_key[kind]);
    lua_setmetatable(L, -2);
    return u;
}

void *
kind_test(lua_State *L, int i, enum kind kind)
{
    void *u = lua_touserdata(L, i); /* NULL: the value is no userdata */
    if (!u || !lua_getmetatable(L, i)) return NULL;
    const struct shell *sh = shell_of(L);
    bool same = lua_topointer(L, -1) == sh->meta[kind] && sh->session;
    lua_pop(L, 1);
    return same ? u : NULL;
}

void
kind_make(lua_State *L, enum kind kind, const char *name, const luaL_Reg *methods)
{
    lua_newtable(L);
    field_text(L, "__name", name);
    luaL_setfuncs(L, methods, 0);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &kind_key[kind]);
    shell_of(L)->meta[kind] = lua_topointer(L, -1);
}

void
kind_metatable(lua_State *L, enum kind kind)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &kind_key[kind]);
}

struct rille_tensor *
tensor_test(lua_State *L, int i)
{
    struct rille_tensor **t = kind_test(L, i, KIND_TENSOR);
    return t ? *t : NULL;
}

void
check_keys(lua_State *L, int i, const char *who, const char *const *keys)
{
    i = lua_absindex(L, i);
    for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) continue;
        const char *key = text_at(L, -2, who);
        int k = 0;
        while (keys[k] && strcmp(keys[k], key)) k++;
        if (keys[k]) continue;
        luaL_Buffer b;
        luaL_buffinit(L, &b);
        for (k = 0; keys[k]; k++) {
            if (k) luaL_addstring(&b, ", ");
            luaL_addstring(&b, keys[k]);
        }
        luaL_pushresult(&b);
        const char *list = lua_tostring(L, -1);
        complain(L, "%s: unknown option '%s'%s; expected one of: %s", who, key, option_hint(L, key, keys), list);
    }
}

void
check_list(lua_State *L, int i, const char *who)
{
    lua_Integer n = (lua_Integer)lua_rawlen(L, i);
    i = lua_absindex(L, i);
    for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) {
        if (lua_isinteger(L, -2) && lua_tointeger(L, -2) >= 1 && lua_tointeger(L, -2) <= n) continue;
        complain(L, "%s: expected a list of entries 1 to %d, found the key %s, too", who, (int)n, what_is(L, -2));
    }
}

/* ---- memory ---- */

enum { SLACK = 32 << 20 };

/* Collects Lua's garbage if handles own many more bytes than before. Lua does not count these bytes. A collection is
 * due when these bytes have grown by a quarter, and by at least SLACK, since the last collection. So collections cost
 * little compared with the program, however much memory it uses. */
void
collect_if_due(lua_State *L)
{
    struct shell *sh = shell_of(L);
    if (rille_external_bytes(sh->session) < sh->collect_at) return;
    lua_gc(L, LUA_GCCOLLECT);
    int64_t left = rille_external_bytes(sh->session);
    sh->collect_at = left + (left / 4 > SLACK ? left / 4 : SLACK);
}

void
room_check(lua_State *L, const char *who, size_t bytes)
{
    void *probe = malloc(bytes + 1);
    if (!probe) lua_gc(L, LUA_GCCOLLECT), probe = malloc(bytes + 1);
    if (!probe) complain(L, "%s: out of memory: the values need %zu bytes", who, bytes);
    free(probe);
}

void *
scratch_new(lua_State *L, const char *who, size_t bytes)
{
    room_check(L, who, bytes);
    return lua_newuserdatauv(L, bytes + 1, 0);
}

void
owner_drop(struct owner *o)
{
    if (o->thing) o->drop(o->thing);
    o->thing = NULL;
}

static int
owner_gc(lua_State *L)
{
    owner_drop(lua_touserdata(L, 1));
    return 0;
}

struct owner *
owner_push(lua_State *L, void (*drop)(void *thing))
{
    struct owner *o = lua_newuserdatauv(L, sizeof *o, 0);
    *o = (struct owner){NULL, drop};
    if (luaL_newmetatable(L, "rille.owner")) {
        field_function(L, "__gc", owner_gc);
    }
    lua_setmetatable(L, -2);
    return o;
}

/* ---- opening and closing the session ---- */

static const char shell_key; /* registry key of the struct shell */

/* The shells of this process, newest first, guarded by the lock. `only` is the process's shell if the process has one
 * shell, so that no look-up in the registry is needed; else NULL. */
static pthread_mutex_t shells_lock = PTHREAD_MUTEX_INITIALIZER;
static struct shell *shells;
static struct shell *_Atomic only;

static void
shell_list(struct shell *sh)
{
    pthread_mutex_lock(&shells_lock);
    sh->next = shells;
    shells = sh;
    only = sh->next ? NULL : sh;
    pthread_mutex_unlock(&shells_lock);
}

static void
shell_unlist(struct shell *sh)
{
    pthread_mutex_lock(&shells_lock);
    struct shell **at = &shells;
    while (*at != sh) at = &(*at)->next;
    *at = sh->next;
    only = shells && !shells->next ? shells : NULL;
    pthread_mutex_unlock(&shells_lock);
}

struct shell *
shell_of(lua_State *L)
{
    struct shell *sh = atomic_load_explicit(&only, memory_order_relaxed);
    if (sh) return sh;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &shell_key);
    sh = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return sh;
}

/* Waits for pending work of runs before libraries are unloaded, because os.exit() may end the process without
 * closing the state. */
static void
at_exit(void)
{
    pthread_mutex_lock(&shells_lock);
    for (struct shell *sh = shells; sh; sh = sh->next)
        if (sh->session) rille_wait(sh->session);
    pthread_mutex_unlock(&shells_lock);
}

static void
end_session(struct shell *sh)
{
    rille_saving_end(&sh->saving);
    if (sh->closing) sh->closing();
    if (sh->session) rille_close(&sh->session);
}

int
shell_close(lua_State *L)
{
    end_session(shell_of(L));
    return 0;
}

static int
shell_gc(lua_State *L)
{
    struct shell *sh = lua_touserdata(L, 1);
    end_session(sh);
    shell_unlist(sh);
    return 0;
}

struct rille_session *
shell_session(lua_State *L)
{
    struct rille_session *s = shell_of(L)->session;
    if (s && !rille_default_kind(s)) check(L, rille_error_code());
    return s;
}

int
shell_new(lua_State *L, const struct environment *e)
{
    struct shell *sh = lua_newuserdatauv(L, sizeof *sh, 0);
    memset(sh, 0, sizeof *sh);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &shell_key);
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    sh->main = lua_tothread(L, -1);
    lua_pop(L, 1);
    sh->running = L;
    sh->process = getpid();
    sh->collect_at = SLACK;
    sh->trace = e->trace;
    sh->check_trace = e->check_trace;
    lua_createtable(L, 0, 1);
    field_function(L, "__gc", shell_gc);
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
    shell_list(sh);
    static bool told;
    if (!told) told = !atexit(at_exit);
    return rille_open(&e->options, &sh->session);
}
