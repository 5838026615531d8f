/* lua_error.c - which line of the user's program a call stands on, and errors that begin with it.
 *
 * The user's line is that of the first Lua function on the stack that is not in Rille's own modules (files under
 * lua_dir); when such modules were passed, the innermost one's class tells where in them ("nn.Linear"). The core is told
 * before every call, so this must be cheap: two questions to Lua and one comparison of text.
 *
 * What the core says about a call has no line in it and gets the user's. What it says about a run names first the line
 * whose operator failed; then it is told where the value was wanted, unless that is the same line. */
#include "shell/shell.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The name of the class of a method's self, its first local: classes are metatables and say __name. */
static void
find_inside(lua_State *L, lua_Debug *ar, char *out, size_t size)
{
    out[0] = 0;
    if (!lua_getlocal(L, ar, 1)) return;
    if (lua_istable(L, -1) && lua_getmetatable(L, -1)) {
        lua_pushliteral(L, "__name");
        if (lua_rawget(L, -2) == LUA_TSTRING) snprintf(out, size, "%s", lua_tostring(L, -1));
        lua_pop(L, 2);
    }
    lua_pop(L, 1);
}

static const char *
file_of(const lua_Debug *ar)
{
    return ar->source[0] == '@' ? ar->source + 1 : ar->short_src;
}

static void
find_line(lua_State *L, struct line *line)
{
    struct shell *sh = shell_of(L);
    lua_Debug ar;
    line->number = 0;
    line->file[0] = line->inside[0] = 0;
    for (int level = 0; lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "Sl", &ar);
        if (ar.currentline < 0) continue;
        const char *file = file_of(&ar);
        if (!strncmp(file, sh->lua_dir, sh->lua_dir_size)) {
            if (!line->inside[0]) find_inside(L, &ar, line->inside, sizeof line->inside);
            continue;
        }
        size_t n = strlen(file);
        size_t cut = n < sizeof line->file ? 0 : n - sizeof line->file + 1; /* the end of a long path tells more */
        memcpy(line->file, file + cut, n - cut + 1);
        line->number = ar.currentline;
        return;
    }
}

void
at_line(lua_State *L)
{
    struct shell *sh = shell_of(L);
    struct line line;
    sh->running = L;
    find_line(L, &line);
    if (line.number == sh->line.number && !strcmp(line.file, sh->line.file) && !strcmp(line.inside, sh->line.inside))
        return;
    sh->line = line;
    rille_at(sh->session, line.file, line.number, line.inside[0] ? line.inside : NULL);
}

/* Does the text begin with "FILE:LINE: "? Gives the length of FILE:LINE, or 0. */
static size_t
names_line(const char *text)
{
    const char *colon = strchr(text, ':');
    while (colon) {
        const char *end = colon + 1;
        while (isdigit((unsigned char)*end)) end++;
        if (end > colon + 1 && end[0] == ':' && end[1] == ' ') return (size_t)(end - text);
        colon = memchr(text, '\n', (size_t)(colon - text)) ? NULL : strchr(colon + 1, ':');
    }
    return 0;
}

int
raise_core(lua_State *L)
{
    struct line line;
    char here[300];
    const char *text = rille_error();
    find_line(L, &line);
    snprintf(here, sizeof here, "%s:%d", line.file, line.number);
    size_t named = names_line(text);
    bool elsewhere = named && (named != strlen(here) || strncmp(text, here, named) != 0);
    if (elsewhere && line.number) lua_pushfstring(L, "%s (wanted at %s)", text, here);
    else if (named || !line.number) lua_pushstring(L, text);
    else lua_pushfstring(L, "%s: %s", here, text);
    if (line.inside[0] && !elsewhere) lua_pushfstring(L, "%s (in %s)", lua_tostring(L, -1), line.inside);
    return lua_error(L);
}

int
complain(lua_State *L, const char *fmt, ...)
{
    struct line line;
    char text[1000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    find_line(L, &line);
    if (line.number) lua_pushfstring(L, "%s:%d: %s", line.file, line.number, text);
    else lua_pushstring(L, text);
    return lua_error(L);
}

const char *
what_is(lua_State *L, int i)
{
    static const char *const names[] = {"nothing", "nil",        "a boolean",  "a pointer",  "a number",
                                        "a string", "a table",    "a function", "a userdata", "a coroutine"};
    if (tensor_test(L, i)) return "a tensor";
    if (kind_test(L, i, KIND_PLACE)) return "a placement";
    if (kind_test(L, i, KIND_LIVE)) return "a live number";
    return names[lua_type(L, i) + 1];
}
