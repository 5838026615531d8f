/* modules.c - the parts of Rille written in Lua: the files of lua/, compiled into the program, so that the program
 * runs without these files.
 *
 * Developers of the modules can set RILLE_LUA_DIR to a folder from which the modules are loaded instead. A chunk is
 * called "rille.nn.linear" in both cases, so that messages show no paths, and the user's lines can be
 * distinguished from Rille's. */
#include "shell/bind/base/modules.h"

#include "shell/bind/base/modules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK "=rille."

bool
module_is_source(const char *source)
{
    return !strncmp(source, CHUNK, sizeof CHUNK - 1);
}

static const struct module_text *
find_module(const char *name)
{
    for (const struct module_text *m = module_texts; m->name; m++)
        if (!strcmp(m->name, name)) return m;
    return NULL;
}

/* Pushes and returns the path of the module's file in RILLE_LUA_DIR; returns NULL and pushes nothing if RILLE_LUA_DIR
 * is not set. */
static const char *
push_path(lua_State *L, const char *name)
{
    const char *folder = getenv("RILLE_LUA_DIR");
    if (!folder || !*folder) return NULL;
    luaL_gsub(L, name, ".", "/");
    const char *path = lua_pushfstring(L, "%s/%s.lua", folder, lua_tostring(L, -1));
    lua_remove(L, -2);
    return path;
}

bool
module_exists(lua_State *L, const char *name)
{
    const char *path = push_path(L, name);
    bool there = path ? !access(path, R_OK) : find_module(name) != NULL;
    if (path) lua_pop(L, 1);
    return there;
}

/* Pushes the contents of a file. */
static int
push_file(lua_State *L, const char *path)
{
    luaL_Buffer b;
    size_t n;
    FILE *file = fopen(path, "rb");
    if (!file) return lua_pushfstring(L, "RILLE_LUA_DIR: %s cannot be read: %s", path, strerror(errno)), LUA_ERRFILE;
    luaL_buffinit(L, &b);
    do {
        char *chunk = luaL_prepbuffer(&b);
        n = fread(chunk, 1, LUAL_BUFFERSIZE, file);
        luaL_addsize(&b, n);
    } while (n);
    fclose(file);
    luaL_pushresult(&b);
    return LUA_OK;
}

int
module_load(lua_State *L, const char *name)
{
    const struct module_text *m = find_module(name);
    const char *chunk = lua_pushfstring(L, CHUNK "%s", name), *path = push_path(L, name);
    if (path && push_file(L, path)) return LUA_ERRFILE;
    if (path) {
        size_t size;
        const char *text = lua_tolstring(L, -1, &size);
        return luaL_loadbufferx(L, text, size, chunk, "t");
    }
    return m ? luaL_loadbufferx(L, m->text, m->size, chunk, "t") : MODULE_NONE;
}
