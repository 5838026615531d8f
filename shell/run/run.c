/* run.c - calls Lua with Ctrl-C enabled, and prints errors. */
#include "shell/run/journal.h"
#include "shell/run/show.h"
#include "shell/run/pattern.h"
#include "shell/run/run.h"
#include "shell/bind/base/fold.h"
#include "shell/bind/base/lua_error.h"
#include "shell/run/interrupt.h"

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
    journal_event("message", text);
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

#define TRACEBACK "\nstack traceback:"

/* Returns true if the traceback has only one frame, the main chunk, and the message begins with that frame's
 * position. */
static bool
is_named_frame(const char *text)
{
    const char *frame = strstr(text, TRACEBACK "\n\t") + sizeof TRACEBACK + 1, *end = strstr(frame, ": in main chunk");
    return end && !strncmp(text, frame, (size_t)(end - frame));
}

/* Returns the error text with an explanation of Lua's own errors (lua/base/misuse.lua), or the text itself. */
static const char *
explain_error(lua_State *L, const char *text)
{
    int top = lua_gettop(L);
    if (!lua_checkstack(L, 8)) return text;
    lua_getglobal(L, "require");
    lua_pushliteral(L, "rille.base.misuse");
    if (lua_pcall(L, 1, 1, 0) == LUA_OK) {
        lua_pushstring(L, text);
        if (lua_pcall(L, 1, 1, 0) == LUA_OK && lua_type(L, -1) == LUA_TSTRING) return lua_tostring(L, -1);
    }
    lua_settop(L, top);
    return text;
}

/* Removes the frames of C functions and of Rille's modules from the traceback in the text at the top of the stack.
 * Removes the whole traceback if the only frame left is the line that the message names. */
static void
hide_frames(lua_State *L)
{
    const char *text = lua_tostring(L, -1), *trace = strstr(text, TRACEBACK);
    if (!trace) return;
    luaL_Buffer b;
    int kept = 0;
    luaL_buffinit(L, &b);
    luaL_addlstring(&b, text, (size_t)(trace - text));
    luaL_addstring(&b, TRACEBACK);
    for (const char *line = trace + sizeof TRACEBACK - 1; *line; line += 1 + strcspn(line + 1, "\n")) {
        size_t n = 1 + strcspn(line + 1, "\n");
        bool hidden =
            !strncmp(line, "\n\t[C]:", 6) || !strncmp(line, "\n\trille.", 8) || !strncmp(line, "\n\t(...tail", 10);
        if (hidden) continue;
        luaL_addlstring(&b, line, n);
        kept++;
    }
    luaL_pushresult(&b);
    bool same = kept == 1 && is_named_frame(lua_tostring(L, -1));
    if (kept == 0 || same) lua_pushlstring(L, text, (size_t)(trace - text));
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
    text = explain_error(L, text);
    luaL_traceback(L, L, text, 1);
    if (!getenv("RILLE_LUA_DIR")) hide_frames(L);
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
