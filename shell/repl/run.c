/* run.c - calls Lua with Ctrl-C enabled, and prints errors. */
#include "shell/repl/repl.h"
#include "shell/bind/base/shell.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void
tell_error(const char *text)
{
    int columns = terminal_columns(2);
    char *folded = columns ? fold_text(text, columns) : NULL;
    for (const char *at = folded ? folded : text; *at; at++) {
        unsigned char c = (unsigned char)*at;
        if ((c < 32 && c != '\n' && c != '\t') || c == 127)
            fprintf(stderr, "\\%d", c);
        else
            fputc(c, stderr);
    }
    free(folded);
}

void
tell_line(const char *text)
{
    char *line = NULL;
    if (asprintf(&line, "rille: %s", text) < 0) line = NULL;
    tell_error(line ? line : text);
    fputc('\n', stderr);
    free(line);
}

static int
show_first(lua_State *L)
{
    show_value(L, 1);
    return 1;
}

static int
on_error(lua_State *L)
{
    const char *text = lua_tostring(L, 1);
    if (!text) {
        if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING) return 1;
        lua_pushcfunction(L, show_first);
        lua_pushvalue(L, 1);
        bool shown = lua_istable(L, 1) && lua_pcall(L, 1, 1, 0) == LUA_OK;
        text = lua_pushfstring(L, "(the error is %s)", shown ? lua_tostring(L, -1) : what_is(L, 1));
    }
    luaL_traceback(L, L, text, 1);
    return 1;
}

int
run_quiet(lua_State *L, int nargs, int nresults)
{
    int base = lua_gettop(L) - nargs;
    lua_pushcfunction(L, on_error);
    lua_insert(L, base);
    interrupt_start(L);
    int code = lua_pcall(L, nargs, nresults, base);
    interrupt_stop();
    lua_remove(L, base);
    if (pattern_refused() && code) {
        lua_pushliteral(L, "interrupted");
        lua_replace(L, -2);
    }
    return code;
}

void
make_folders(const char *path)
{
    char at[PATH_MAX];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(at, sizeof at, "%.*s", (int)(slash - path), path);
        mkdir(at, 0777);
    }
}
