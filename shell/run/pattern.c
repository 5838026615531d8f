/* pattern.c - functions of Lua's library that can run without end, replaced so that Ctrl-C stops them at a prompt.
 *
 * Pattern matching can backtrack for a very long time, and no hook runs meanwhile. But the matcher reads its pattern
 * at each step, and raises an error if the pattern is malformed. So Ctrl-C overwrites the bytes of the current
 * pattern with '[', an unclosed set. The matcher then raises its usual error, and the bytes are restored before other
 * code sees them. The matcher calls no other code, except the function or table passed to gsub; during such a call
 * Ctrl-C does not change the pattern.
 *
 * table.sort sorts a long list by a comparison function in Lua, in which hooks run. table.move moves a long list in
 * several calls, and hooks run between the calls.
 *
 * Input without end, as in io.lines("/dev/zero")(), needs larger and larger blocks. After Ctrl-C was pressed,
 * allocations of large blocks fail until the running code has received the interrupt, so that Lua raises "not enough
 * memory" and the input ends. */
#include "shell/run/pattern.h"
#include "shell/bind/base/shell.h"
#include "shell/run/interrupt.h"

#include <signal.h>
#include <string.h>

/* minimum length, in entries, of a list that counts as long to sort; sorting a list of this length takes about 20
 * ms */
enum { LONG_LIST = 100000 };
enum { LONG_MOVE = 1000000 };       /* length of one move, entries; such a move takes about 10 ms */
enum { LARGE_BLOCK = 1024 * 1024 }; /* size from which a block counts as large, bytes */

struct match {
    char *pattern; /* bytes of the Lua string that holds the pattern */
    size_t n;
    sig_atomic_t spoilt;
    volatile struct match *outer;
    bool called; /* true while the function or table given to gsub is called */
};

static volatile struct match *volatile matching; /* the pattern match in progress; NULL: none */

void
pattern_stop(void)
{
    volatile struct match *m = matching;
    if (!m) return;
    memset(m->pattern, '[', m->n);
    m->spoilt = 1;
}

/* Raises the library's error about a malformed pattern, prefixed by the user's line. */
static int
raise_at_line(lua_State *L)
{
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
    return lua_error(L);
}

/* Implements the replacement function that gsub calls for each match: calls or indexes the function or table that
 * the user passed (upvalue 1). Upvalue 2 is gsub's struct match. */
static int
call_for_match(lua_State *L)
{
    volatile struct match *m = lua_touserdata(L, lua_upvalueindex(2));
    matching = m->outer;
    /* Ctrl-C was pressed during the last step of the match, after which the matcher does not read the pattern
     * again */
    if (m->spoilt) return luaL_error(L, "interrupted");
    m->called = true;
    if (lua_istable(L, lua_upvalueindex(1))) {
        lua_settop(L, 1);
        lua_gettable(L, lua_upvalueindex(1));
    } else {
        lua_pushvalue(L, lua_upvalueindex(1));
        lua_insert(L, 1);
        lua_call(L, lua_gettop(L) - 1, 1);
    }
    m->called = false;
    matching = m;
    return 1;
}

/* Calls the library's function (upvalue 1) with the arguments on the stack. `pattern` is the index of the pattern;
 * if `calls`, the next argument is the function or table that gsub calls. */
static int
call_stoppable(lua_State *L, int pattern, bool calls)
{
    size_t n;
    char *text = (char *)lua_tolstring(L, pattern, &n);
    lua_pushvalue(L, pattern); /* a copy on the stack keeps the string alive until its bytes are restored */
    lua_insert(L, 1);
    char *copy = memcpy(lua_newuserdatauv(L, n, 0), text, n);
    lua_insert(L, 2);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 3);
    volatile struct match m = {.pattern = text, .n = n, .outer = matching};
    if (calls) {
        lua_pushvalue(L, 3 + pattern + 1);
        lua_pushlightuserdata(L, (void *)&m);
        lua_pushcclosure(L, call_for_match, 2);
        lua_replace(L, 3 + pattern + 1);
    }
    matching = &m;
    int code = lua_pcall(L, lua_gettop(L) - 3, LUA_MULTRET, 0);
    matching = m.outer;
    if (m.spoilt) {
        memcpy(text, copy, n);
        lua_settop(L, 2);
        lua_gc(L, LUA_GCCOLLECT); /* frees any string that was interned as a duplicate of the pattern */
        shell_of(L)->cancelled();
        return luaL_error(L, "interrupted");
    }
    if (code == LUA_ERRRUN && !m.called && lua_type(L, -1) == LUA_TSTRING) return raise_at_line(L);
    return code ? lua_error(L) : lua_gettop(L) - 2;
}

static void
check_texts(lua_State *L)
{
    luaL_checkstring(L, 1);
    luaL_checkstring(L, 2);
}

/* Implements string.find and string.match. */
static int
pattern_find(lua_State *L)
{
    check_texts(L);
    luaL_optinteger(L, 3, 1);
    return call_stoppable(L, 2, false);
}

/* The iterator of string.gmatch; upvalue 2 is the pattern. */
static int
next_match(lua_State *L)
{
    return call_stoppable(L, lua_upvalueindex(2), false);
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
    luaL_argexpected(L, lua_isstring(L, 3) || lua_isfunction(L, 3) || lua_istable(L, 3), 3, "string/function/table");
    bool calls = lua_isfunction(L, 3);
    if (lua_istable(L, 3) && lua_getmetatable(L, 3)) {
        lua_pop(L, 1);
        calls = true;
    }
    return call_stoppable(L, 2, calls);
}

/* Calls the library's function (upvalue 1) with the arguments on the stack. */
static int
call_library(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

static int
pattern_less(lua_State *L)
{
    lua_pushboolean(L, lua_compare(L, 1, 2, LUA_OPLT));
    return 1;
}

static int
pattern_sort(lua_State *L)
{
    if (!lua_istable(L, 1) && !lua_getmetatable(L, 1)) luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    lua_Integer n = luaL_len(L, 1);
    if (n > 1 && !lua_isnil(L, 2)) luaL_checktype(L, 2, LUA_TFUNCTION);
    if (n >= LONG_LIST && lua_isnil(L, 2)) {
        lua_pushcfunction(L, pattern_less);
        lua_replace(L, 2);
    }
    return call_library(L);
}

/* Implements table.move: splits a long move into pieces, because hooks run between the pieces. The last piece is
 * moved first if the other pieces would overwrite its source. */
static int
pattern_move(lua_State *L)
{
    lua_Integer from = luaL_checkinteger(L, 2), end = luaL_checkinteger(L, 3), to = luaL_checkinteger(L, 4);
    luaL_argcheck(L, from > 0 || end < LUA_MAXINTEGER + from, 3, "too many elements to move");
    luaL_argcheck(L, end < from || to <= LUA_MAXINTEGER - (end - from), 4, "destination wrap around");
    if (end < from || end - from < LONG_MOVE) return call_library(L);
    lua_settop(L, 5);
    int into = lua_isnil(L, 5) ? 1 : 5;
    bool backward = to > from && to <= end;
    for (lua_Integer n = end - from + 1, done = 0, piece; done < n; done += piece) {
        piece = n - done < LONG_MOVE ? n - done : LONG_MOVE;
        lua_Integer at = backward ? n - done - piece : done;
        lua_pushvalue(L, lua_upvalueindex(1));
        lua_pushvalue(L, 1);
        lua_pushinteger(L, from + at);
        lua_pushinteger(L, from + at + piece - 1);
        lua_pushinteger(L, to + at);
        lua_pushvalue(L, into);
        lua_call(L, 5, 0);
    }
    lua_settop(L, into);
    return 1;
}

/* Implements string.rep: an empty result is returned at once, however large the count. */
static int
rep(lua_State *L)
{
    size_t n, between = 0;
    luaL_checklstring(L, 1, &n);
    lua_Integer times = luaL_checkinteger(L, 2);
    luaL_optlstring(L, 3, "", &between);
    if (times > 0 && n + between == 0) {
        lua_settop(L, 1);
        return 1;
    }
    if (times > 0 && n + between > (size_t)(LUA_MAXINTEGER / times)) return luaL_error(L, "resulting string too large");
    return call_library(L);
}

static const struct {
    const char *module, *name;
    lua_CFunction ours;
} replaced[] = {{"string", "find", pattern_find}, {"string", "match", pattern_find},
                {"string", "gmatch", gmatch},     {"string", "gsub", gsub},
                {"string", "rep", rep},           {"table", "sort", pattern_sort},
                {"table", "move", pattern_move}};

/* ---- blocks ---- */

static lua_Alloc allocate; /* the Lua state's original allocator */
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

/* Replaces the functions of Lua's library by those above, except functions that an init file has already replaced. */
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
