/* text_only.c - makes the program refuse precompiled chunks, because Lua does not verify them, and a malformed one
 * can crash the process. Replaces load, loadfile, dofile and require's searcher for files by functions that accept
 * only text. */
#include "shell/run/text_only.h"
#include "shell/bind/base/shell.h"

/* Calls Lua's own function (upvalue 1) with "t" (text only) as its argument number `mode`. */
static int
with_mode(lua_State *L, int mode)
{
    if (lua_gettop(L) < mode) lua_settop(L, mode);
    lua_pushliteral(L, "t");
    lua_replace(L, mode);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

static int
text_only_load(lua_State *L)
{
    return with_mode(L, 3);
}

static int
loadfile(lua_State *L)
{
    return with_mode(L, 2);
}

static int
results(lua_State *L, int status, lua_KContext below)
{
    (void)status;
    return lua_gettop(L) - (int)below;
}

static int
dofile(lua_State *L)
{
    const char *path = luaL_optstring(L, 1, NULL);
    lua_settop(L, 1);
    if (luaL_loadfilex(L, path, "t")) return lua_error(L);
    lua_callk(L, 0, LUA_MULTRET, 1, results);
    return results(L, LUA_OK, 1);
}

/* A package searcher: returns the function of a module's file and the file's path, or a text that says why the
 * file was not found. Upvalue 1 is the table package. */
static int
searcher(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    lua_getfield(L, lua_upvalueindex(1), "searchpath");
    lua_pushvalue(L, 1);
    if (lua_getfield(L, lua_upvalueindex(1), "path") != LUA_TSTRING)
        return luaL_error(L, "'package.path' must be a string");
    lua_call(L, 2, 2);
    if (lua_isnil(L, -2)) return 1;
    const char *path = lua_tostring(L, -2);
    if (luaL_loadfilex(L, path, "t"))
        return luaL_error(L, "error loading module '%s' from file '%s':\n\t%s", name, path, lua_tostring(L, -1));
    lua_pushstring(L, path);
    return 2;
}

void
text_only_open(lua_State *L)
{
    static const luaL_Reg replaced[] = {
        {"load", text_only_load}, {"loadfile", loadfile}, {"dofile", dofile}, {NULL, NULL}};
    for (const luaL_Reg *r = replaced; r->name; r++) {
        lua_getglobal(L, r->name);
        lua_pushcclosure(L, r->func, 1);
        lua_setglobal(L, r->name);
    }
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "searchers");
    lua_pushvalue(L, -2);
    lua_pushcclosure(L, searcher, 1);
    lua_rawseti(L, -2, 2); /* replaces Lua's own searcher */
    lua_pop(L, 2);
}
