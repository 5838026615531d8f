/* pattern.c - functions of Lua's own library that may take for ever, so that Ctrl-C stops them at a prompt.
 *
 * A pattern may try all ways to cut a text, and no hook is asked meanwhile. But at each step the matcher reads its
 * pattern, and raises where that is wrong. So a press overwrites the pattern that is being matched with '[', sets
 * without an end: the matcher leaves by its own door, and the bytes are put back before anyone else sees them. It calls
 * nobody meanwhile, but for the function or table that gsub takes: there the pattern is left alone.
 *
 * A list so long that one would wait is sorted by a function, of which hooks are asked.
 *
 * What gathers without an end - io.lines("/dev/zero")() - needs larger and larger blocks: until a press has been told,
 * no large one is given, and Lua raises as where memory is short. */
#include "shell/shell.h"

#include <signal.h>
#include <string.h>

enum { LONG_LIST = 100000 };        /* about 20 ms */
enum { LARGE_BLOCK = 1024 * 1024 }; /* bytes */

struct match {
    char *pattern; /* the bytes of a text of Lua's */
    size_t n;
    sig_atomic_t spoilt;
};

static volatile struct match *volatile matching; /* the call in progress; NULL: none */

void
pattern_stop(void)
{
    volatile struct match *m = matching;
    if (!m) return;
    memset(m->pattern, '[', m->n);
    m->spoilt = 1;
}

/* Raises what the library said of a pattern, at the user's line. */
static int
raise_at_line(lua_State *L)
{
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
    return lua_error(L);
}

/* Calls the library's function, upvalue 1, with what is on the stack; its pattern is at this index. */
static int
call_stoppable(lua_State *L, int pattern)
{
    size_t n;
    char *text = (char *)lua_tolstring(L, pattern, &n);
    lua_pushvalue(L, pattern); /* it stays where it is until its bytes are back */
    lua_insert(L, 1);
    char *copy = memcpy(lua_newuserdatauv(L, n, 0), text, n);
    lua_insert(L, 2);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 3);
    volatile struct match m = {.pattern = text, .n = n}, *outer = matching;
    matching = &m;
    int code = lua_pcall(L, lua_gettop(L) - 3, LUA_MULTRET, 0);
    matching = outer;
    if (m.spoilt) {
        memcpy(text, copy, n);
        lua_settop(L, 2);
        lua_gc(L, LUA_GCCOLLECT); /* a match of the pattern's own text was made a second text of the same bytes */
        shell_of(L)->cancelled();
        return luaL_error(L, "interrupted");
    }
    if (code == LUA_ERRRUN && lua_type(L, -1) == LUA_TSTRING) return raise_at_line(L);
    return code ? lua_error(L) : lua_gettop(L) - 2;
}

static void
check_texts(lua_State *L)
{
    luaL_checkstring(L, 1);
    luaL_checkstring(L, 2);
}

/* string.find, string.match */
static int
find(lua_State *L)
{
    check_texts(L);
    luaL_optinteger(L, 3, 1);
    return call_stoppable(L, 2);
}

/* What string.gmatch gives; upvalue 2 is the pattern. */
static int
next_match(lua_State *L)
{
    return call_stoppable(L, lua_upvalueindex(2));
}

static int
gmatch(lua_State *L)
{
    check_texts(L);
    luaL_optinteger(L, 3, 1);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_rotate(L, 1, 2);
    lua_call(L, lua_gettop(L) - 2, 1);
    lua_rotate(L, 1, 1);
    lua_pushcclosure(L, next_match, 2);
    return 1;
}

static int
gsub(lua_State *L)
{
    check_texts(L);
    luaL_optinteger(L, 4, 0);
    if (lua_isstring(L, 3)) return call_stoppable(L, 2);
    luaL_argexpected(L, lua_isfunction(L, 3) || lua_istable(L, 3), 3, "string/function/table");
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

static int
less(lua_State *L)
{
    lua_pushboolean(L, lua_compare(L, 1, 2, LUA_OPLT));
    return 1;
}

static int
sort(lua_State *L)
{
    if (!lua_istable(L, 1) && !lua_getmetatable(L, 1)) luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    lua_Integer n = luaL_len(L, 1);
    if (n > 1 && !lua_isnil(L, 2)) luaL_checktype(L, 2, LUA_TFUNCTION);
    if (n >= LONG_LIST && lua_isnil(L, 2)) {
        lua_pushcfunction(L, less);
        lua_replace(L, 2);
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 2, 0);
    return 0;
}

static const struct {
    const char *module, *name;
    lua_CFunction ours;
} replaced[] = {{"string", "find", find},
                {"string", "match", find},
                {"string", "gmatch", gmatch},
                {"string", "gsub", gsub},
                {"table", "sort", sort}};

/* ---- blocks ---- */

static lua_Alloc allocate; /* what the state began with */
static bool refused;

static void *
allocate_unless_stopped(void *with, void *block, size_t old, size_t size)
{
    if (size > LARGE_BLOCK && (!block || size > old) && interrupt_untold()) return refused = true, NULL;
    return allocate(with, block, old, size);
}

bool
pattern_refused(void)
{
    bool was = refused;
    refused = false;
    return was;
}

/* Replaces those that are still the library's: an init file may have been there first. */
void
pattern_open(lua_State *L)
{
    void *with;
    allocate = lua_getallocf(L, &with);
    lua_setallocf(L, allocate_unless_stopped, with);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    int loaded = lua_gettop(L);
    for (size_t k = 0; k < sizeof replaced / sizeof *replaced; k++) {
        lua_pushstring(L, replaced[k].module);
        if (lua_rawget(L, loaded) == LUA_TTABLE) {
            lua_pushstring(L, replaced[k].name);
            lua_pushstring(L, replaced[k].name);
            lua_rawget(L, -3);
            if (lua_iscfunction(L, -1)) {
                lua_pushcclosure(L, replaced[k].ours, 1);
                lua_rawset(L, -3);
            }
        }
        lua_settop(L, loaded);
    }
    lua_pop(L, 1);
}
