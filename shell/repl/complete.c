/* complete.c - completes typed text. Passes the text before the cursor, as tokens, to lua/pages/complete.lua, which
 * finds the completions, and the signature of the function called at the cursor. Lists file names for completion. */
#include "shell/repl/complete.h"
#include "shell/bind/base/field.h"
#include "shell/repl/command.h"
#include "shell/repl/token.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* longest chunk, in bytes, for which hints are shown, because each key parses the chunk again */
enum { HINT_BYTES = 8192 };

static const char *const kinds[] = {
    [T_NAME] = "name", [T_NUMBER] = "number", [T_STRING] = "string", [T_OTHER] = "other"};

/* Pushes the chunk up to the cursor, and the list of its tokens, each {kind, from, to}; positions count from 1. */
static void
push_line_chunk(lua_State *L, const char *line, int end)
{
    const char *text = lua_pushlstring(L, line, (size_t)end);
    lua_newtable(L);
    int n = 0;
    for (struct token t; (t = token_next(text)).kind != T_END; text = token_after(&t)) {
        lua_createtable(L, 3, 0);
        lua_pushstring(L, kinds[t.kind]);
        lua_rawseti(L, -2, 1);
        lua_pushinteger(L, t.at - lua_tostring(L, -3) + 1);
        lua_rawseti(L, -2, 2);
        lua_pushinteger(L, token_after(&t) - lua_tostring(L, -3));
        lua_rawseti(L, -2, 3);
        lua_rawseti(L, -2, ++n);
    }
}

static void
push_completed_function(lua_State *L, const char *name)
{
    lua_getglobal(L, "require");
    lua_pushliteral(L, "rille.pages.complete");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
}

static void
push_commands(lua_State *L)
{
    lua_newtable(L);
    for (int i = 0; command_name(i); i++) {
        lua_pushstring(L, command_name(i));
        lua_rawseti(L, -2, i + 1);
    }
}

/* For Lua: returns the list of paths that begin with the argument; a folder's path ends in "/". */
static int
files(lua_State *L)
{
    const char *path = lua_tostring(L, 1), *name = strrchr(path, '/');
    size_t base = name ? (size_t)(name + 1 - path) : 0;
    int n = 0;
    lua_newtable(L);
    lua_pushlstring(L, base ? path : ".", base ? base : 1);
    DIR *dir = opendir(lua_tostring(L, -1));
    lua_pop(L, 1);
    if (!dir) return 1;
    for (struct dirent *e; (e = readdir(dir));) {
        struct stat st;
        if (strncmp(e->d_name, path + base, strlen(path + base)) || (e->d_name[0] == '.' && path[base] != '.'))
            continue;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        bool folder = !fstatat(dirfd(dir), e->d_name, &st, 0) && S_ISDIR(st.st_mode);
        lua_pushlstring(L, path, base);
        lua_pushstring(L, e->d_name);
        lua_pushstring(L, folder ? "/" : "");
        lua_concat(L, 3);
        lua_rawseti(L, -2, ++n);
    }
    closedir(dir);
    lua_getglobal(L, "table");
    lua_getfield(L, -1, "sort");
    lua_pushvalue(L, 2);
    lua_call(L, 1, 0);
    lua_settop(L, 2);
    return 1;
}

/* rille._keys(table, prefix): returns the string keys that begin with prefix; written in C because the table may be
 * very large. */
static int
complete_keys(lua_State *L)
{
    size_t size, n;
    const char *prefix = luaL_checklstring(L, 2, &size);
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_newtable(L);
    int list = lua_gettop(L), found = 0;
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tolstring(L, -2, &n) : NULL;
        if (!key || n < size || memcmp(key, prefix, size)) continue;
        lua_pushvalue(L, -2);
        lua_rawseti(L, list, ++found);
    }
    return 1;
}

int
complete(lua_State *L, int env, const char *line, int end)
{
    env = lua_absindex(L, env);
    push_completed_function(L, "list");
    lua_pushvalue(L, env);
    push_line_chunk(L, line, end);
    push_commands(L);
    lua_pushcfunction(L, files);
    lua_call(L, 5, 2);
    int begin = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    return begin;
}

bool
complete_hint(lua_State *L, const char *line, int end)
{
    if (end > HINT_BYTES) return false;
    push_completed_function(L, "hint");
    push_line_chunk(L, line, end);
    lua_call(L, 2, 1);
    bool known = lua_isstring(L, -1);
    if (!known) lua_pop(L, 1);
    return known;
}

/* rille._complete(text), for tests: returns the list of completions, the position at which they begin (from 0),
 * and the hint. */
static int
complete_text(lua_State *L)
{
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    lua_pushglobaltable(L);
    lua_pushinteger(L, complete(L, -1, text, (int)size));
    if (!complete_hint(L, text, (int)size)) lua_pushnil(L);
    return 3;
}

void
complete_open(lua_State *L)
{
    lua_getglobal(L, "rille");
    field_function(L, "_complete", complete_text);
    field_function(L, "_keys", complete_keys);
    lua_pop(L, 1);
}
