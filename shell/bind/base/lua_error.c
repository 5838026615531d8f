/* lua_error.c - finds the line of the user's program, and raises errors that begin with it.
 *
 * The user's line is the current line of the innermost Lua function on the call stack that is not in Rille's
 * modules (modules.c). If Rille modules were skipped, the class of the innermost one is reported too
 * ("nn.Linear"). The line is reported to the core before every call, so the search must be cheap: one query to Lua
 * and one string comparison.
 *
 * A core error about a call names no line; it is prefixed with the user's line. A core error about a run begins
 * with the line whose operator failed; the line that requested the value is appended if it differs. */
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/field.h"
#include "shell/bind/base/misuse.h"
#include "shell/bind/base/modules.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/base/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Returns a number that identifies the module at i: bits of its address. The core stores the number with each
 * operator, so that a run that fails later names the operator's module. */
static int32_t
number_of_module(lua_State *L, int i)
{
    return (int32_t)((uintptr_t)lua_topointer(L, i) >> 4 & INT32_MAX);
}

/* Pushes the module with this number; pushes nil if the module no longer exists. */
static void
push_module(lua_State *L, int32_t number)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    int top = lua_gettop(L);
    bool known =
        lua_getfield(L, -1, "rille.nn.base.module") == LUA_TTABLE && lua_getfield(L, -1, "__all") == LUA_TFUNCTION;
    if (known) lua_call(L, 0, 1);
    if (known) lua_pushnil(L);
    while (known && lua_next(L, top + 2)) {
        lua_pop(L, 1);
        if (number_of_module(L, -1) != number) continue;
        lua_replace(L, top);
        lua_settop(L, top);
        return;
    }
    lua_settop(L, top - 1);
    lua_pushnil(L);
}

/* Records the module whose method is running; self is the method's first local variable. Sets line->module to the
 * module's number. For a method of Rille (own), also sets line->inside to the name of the class, the field __name
 * of self's metatable. */
static void
find_inside(lua_State *L, lua_Debug *ar, bool own, struct line *line)
{
    const char *name = lua_getlocal(L, ar, 1);
    if (!name) return;
    if (!own && lua_istable(L, -1) && !strcmp(name, "self")) line->module = number_of_module(L, -1);
    if (own && lua_istable(L, -1) && lua_getmetatable(L, -1)) {
        lua_pushliteral(L, "__name");
        if (lua_rawget(L, -2) == LUA_TSTRING) {
            snprintf(line->inside, sizeof line->inside, "%s", lua_tostring(L, -1));
            line->module = number_of_module(L, -3);
        }
        lua_pop(L, 2);
    }
    lua_pop(L, 1);
}

/* Replaces the module at the top of the stack by the module's path in the model that holds it, "Net.blocks.3.fc1";
 * if no model holds the module, by a value that is no string. Called only for error messages (lua/nn/base/module.lua
 * finds the path). */
static void
push_module_path(lua_State *L)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    bool loaded = lua_getfield(L, -1, "rille.nn.base.module") == LUA_TTABLE;
    lua_remove(L, -2);
    if (loaded) {
        lua_getfield(L, -1, "__path");
        lua_pushvalue(L, -3);
        if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
            lua_pop(L, 1);
            lua_pushnil(L);
        }
        lua_remove(L, -2);
    }
    lua_remove(L, -2);
}

/* Pushes the error text of a failed run, in which the path of the module whose operator failed replaces the class
 * that the core names: "... (in Net.blocks.3.emb)". Returns false and pushes nothing if the module or its path is
 * unknown. */
static bool
push_with_failed_module(lua_State *L, const char *text)
{
    char class[80];
    int32_t module = rille_error_module();
    int top = lua_gettop(L);
    if (!module || !lua_checkstack(L, 8)) return false;
    push_module(L, module);
    if (lua_istable(L, -1) && luaL_getmetafield(L, -1, "__name") == LUA_TSTRING) {
        snprintf(class, sizeof class, " (in %s)", lua_tostring(L, -1));
        lua_pop(L, 1);
        push_module_path(L);
        size_t n = strlen(text), end = strlen(class);
        if (lua_type(L, -1) == LUA_TSTRING) {
            lua_pushlstring(L, text, n > end && !strcmp(text + n - end, class) ? n - end : n);
            lua_pushfstring(L, "%s (in %s)", lua_tostring(L, -1), lua_tostring(L, -2));
            lua_replace(L, top + 1);
            lua_settop(L, top + 1);
            return true;
        }
    }
    lua_settop(L, top);
    return false;
}

/* Appends to the error text at the top of the stack the path of the nn module whose method is running, " (in
 * Net.fc)" (where() of lua/base/check.lua). If no model holds the module, appends the class `inside`; if `inside` is
 * "", appends nothing. */
static void
append_module(lua_State *L, const char *inside)
{
    /* true during the search for a path; an error raised by the search itself gets no path */
    static _Thread_local bool running;
    int top = lua_gettop(L);
    if (running || !lua_checkstack(L, 8)) return;
    running = true;
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    bool found = lua_getfield(L, -1, "rille.base.check") == LUA_TTABLE && lua_getfield(L, -1, "where") == LUA_TFUNCTION;
    lua_pushinteger(L, 1); /* stack level 1, because level 0 is where() itself */
    const char *where = found && lua_pcall(L, 1, 1, 0) == LUA_OK ? lua_tostring(L, -1) : "";
    if (where && where[0])
        lua_pushfstring(L, "%s%s", lua_tostring(L, top), where);
    else if (inside[0])
        lua_pushfstring(L, "%s (in %s)", lua_tostring(L, top), inside);
    else
        lua_pushvalue(L, top);
    lua_replace(L, top);
    lua_settop(L, top);
    running = false;
}

static const char *
file_of(const lua_Debug *ar)
{
    return ar->source[0] == '@' ? ar->source + 1 : ar->short_src;
}

void
user_line(lua_State *L, int level, struct line *line)
{
    lua_Debug ar;
    line->number = line->module = 0;
    line->file[0] = line->inside[0] = 0;
    for (; lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "Slu", &ar);
        if (ar.currentline < 0) continue;
        if (module_is_source(ar.source)) {
            if (!line->inside[0]) find_inside(L, &ar, true, line);
            continue;
        }
        if (!line->module && ar.nparams > 0) find_inside(L, &ar, false, line);
        const char *file = file_of(&ar);
        size_t n = strlen(file);
        /* keeps the end of a path that is too long */
        size_t cut = n < sizeof line->file ? 0 : n - sizeof line->file + 1;
        memcpy(line->file, file + cut, n - cut + 1);
        line->number = ar.currentline;
        return;
    }
}

static const char files; /* registry key of the set of files reported to the core */

static void
remember_file(lua_State *L, const char *file)
{
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &files) == LUA_TNIL) {
        lua_newtable(L);
        lua_copy(L, -1, -2);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &files);
    }
    field_flag(L, file, true);
    lua_pop(L, 1);
}

void
at_line(lua_State *L)
{
    struct shell *sh = shell_of(L);
    struct line line;
    sh->running = L;
    user_line(L, 1, &line); /* level 0 is the C function that calls at_line() */
    if (line.number == sh->line.number && line.module == sh->line.module && !strcmp(line.file, sh->line.file) &&
        !strcmp(line.inside, sh->line.inside))
        return;
    if (strcmp(line.file, sh->line.file)) remember_file(L, line.file);
    sh->line = line;
    rille_at(sh->session, line.file, line.number, line.inside[0] ? line.inside : NULL, line.module);
}

static bool
is_file(lua_State *L, const char *text, size_t size)
{
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &files) == LUA_TTABLE) {
        lua_pushlstring(L, text, size);
        lua_rawget(L, -2);
        lua_remove(L, -2);
    }
    bool known = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return known;
}

/* Returns the length of FILE:LINE if the text begins with "FILE:LINE: " for a FILE reported to the core, else 0. */
static size_t
names_line(lua_State *L, const char *text)
{
    for (const char *colon = strchr(text, ':'); colon; colon = strchr(colon + 1, ':')) {
        size_t digits = strspn(colon + 1, "0123456789");
        const char *end = colon + 1 + digits;
        if (digits && end[0] == ':' && end[1] == ' ' && is_file(L, text, (size_t)(colon - text)))
            return (size_t)(end - text);
    }
    return 0;
}

const char *
text_at(lua_State *L, int i, const char *who)
{
    const char *text = lua_tostring(L, i);
    if (!text) complain(L, "%s: expected a string, found %s", who, what_is(L, i));
    if (strlen(text) != lua_rawlen(L, i)) complain(L, "%s: the string \"%s\" must not have a zero byte", who, text);
    return text;
}

/* ---- errors that the core cannot carry ---- */

static const char live_error; /* registry key of the error of a function that the core called */

void
live_fail(lua_State *L)
{
    lua_rawsetp(L, LUA_REGISTRYINDEX, &live_error);
}

/* Raises the error of a live number's function, if any. Call it after a failure. */
static void
live_raise(lua_State *L)
{
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &live_error) == LUA_TNIL) {
        lua_pop(L, 1);
        return;
    }
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &live_error);
    lua_error(L);
}

/* Remembers the core's error if the error reports a lost worker. Call it after a core failure. */
static void
lost_remember(lua_State *L)
{
    struct shell *sh = shell_of(L);
    if (rille_was_lost()) snprintf(sh->lost, sizeof sh->lost, "%s", rille_error());
}

bool
lost_is(lua_State *L, int i)
{
    const struct shell *sh = shell_of(L);
    const char *text = lua_type(L, i) == LUA_TSTRING ? lua_tostring(L, i) : NULL;
    return text && sh->lost[0] && strstr(text, sh->lost);
}

/* ---- raising ---- */

int
raise_core(lua_State *L, const char *who)
{
    return raise_call(L, NULL, who);
}

int
raise_call(lua_State *L, const char *op, const char *who)
{
    struct line line;
    char here[300];
    struct shell *sh = shell_of(L);
    const char *text = sh->session ? rille_error() : "the session was closed";
    if (!strcmp(rille_error_kind(), "interrupted")) {
        sh->ninterrupt++;
        if (sh->cancelled) sh->cancelled();
    }
    live_raise(L);
    lost_remember(L);
    bool placed = push_with_failed_module(L, text);
    if (placed) text = lua_tostring(L, -1);
    if (op && !strncmp(text, op, strlen(op)) && text[strlen(op)] == ':')
        text = lua_pushfstring(L, "%s%s", who, text + strlen(op));
    else if (who && strncmp(text, who, strlen(who)) && !(op && names_line(L, text)))
        text = lua_pushfstring(L, "%s: %s", who, text);
    user_line(L, 0, &line);
    snprintf(here, sizeof here, "%s:%d", line.file, line.number);
    size_t named = names_line(L, text);
    bool elsewhere = named && (named != strlen(here) || strncmp(text, here, named) != 0);
    if (elsewhere && line.number)
        lua_pushfstring(L, "%s (needed at %s)", text, here);
    else if (named || !line.number)
        lua_pushstring(L, text);
    else
        lua_pushfstring(L, "%s: %s", here, text);
    if (!elsewhere && !placed) append_module(L, line.inside);
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
    user_line(L, 0, &line);
    if (line.number)
        lua_pushfstring(L, "%s:%d: %s", line.file, line.number, text);
    else
        lua_pushstring(L, text);
    append_module(L, "");
    return lua_error(L);
}

bool
whole_at(lua_State *L, int i, int64_t *out)
{
    int good = 0;
    *out = lua_type(L, i) == LUA_TNUMBER ? lua_tointegerx(L, i, &good) : 0;
    return good;
}

bool
real_at(lua_State *L, int i, double *out)
{
    bool good = lua_type(L, i) == LUA_TNUMBER;
    *out = good ? lua_tonumber(L, i) : 0;
    return good;
}

const char *
number_text(lua_State *L, int i)
{
    if (lua_isinteger(L, i))
        lua_pushvalue(L, i); /* a copy, because lua_tostring converts the value in place */
    else
        lua_pushnumber(L, value_real(lua_tonumber(L, i)));
    return lua_tostring(L, -1);
}

const char *
what_is(lua_State *L, int i)
{
    static const char *const names[] = {"nil",      "nil",     "a boolean",  "a pointer",  "a number",
                                        "a string", "a table", "a function", "a userdata", "a coroutine"};
    int type = lua_type(L, i);
    if (type == LUA_TNUMBER) return number_text(L, i);
    if (type == LUA_TBOOLEAN) return lua_toboolean(L, i) ? "true" : "false";
    if (type == LUA_TSTRING)
        return lua_pushfstring(L, lua_rawlen(L, i) < 40 ? "\"%s\"" : "a string", lua_tostring(L, i));
    if (type == LUA_TUSERDATA && !shell_of(L)->session) return "a value of the closed session";
    const char *class = class_text(L, i);
    return class ? class : names[type + 1];
}
