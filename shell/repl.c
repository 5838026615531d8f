/* repl.c - the shell: read a chunk, run it, print what it gives.
 *
 * Lines are gathered until Lua finds the chunk complete. A chunk that is an expression prints its values unless it ends
 * in ";". An error, and Ctrl-C, end the chunk and leave the session as it is. */
#include "shell/repl.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char environment, own_globals; /* keys in the registry */

void
repl_push_environment(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &environment);
}

bool
repl_is_own(lua_State *L, const char *global)
{
    if (!strcmp(global, LOCAL_TABLE) || !strcmp(global, "_")) return true;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &own_globals);
    bool own = lua_getfield(L, -1, global) != LUA_TNIL;
    lua_pop(L, 2);
    return own;
}

/* ---- loading ---- */

static bool
ends_in_eof(const char *message)
{
    static const char mark[] = "near <eof>";
    size_t n = strlen(message), m = sizeof mark - 1;
    return n >= m && !strcmp(message + n - m, mark);
}

/* Loads the text at the top in place of it. */
static int
load_top(lua_State *L, int env, const char *name)
{
    size_t size;
    const char *text = lua_tolstring(L, -1, &size);
    int code = luaL_loadbufferx(L, text, size, name, "t");
    lua_remove(L, -2);
    if (!code) {
        lua_pushvalue(L, env);
        lua_setupvalue(L, -2, 1);
    }
    return code;
}

/* As an expression, "{1," is found to end too early; as a chunk it is merely wrong. So both are asked. */
int
repl_load(lua_State *L, int env, const char *chunk, const char *name, bool *more)
{
    lua_pushfstring(L, "return %s", chunk);
    if (load_top(L, env, name) == LUA_OK) return LUA_OK;
    *more = ends_in_eof(lua_tostring(L, -1));
    lua_pop(L, 1);
    local_rewrite(L, chunk);
    int code = load_top(L, env, name);
    if (code) *more = *more || ends_in_eof(lua_tostring(L, -1));
    return code;
}

/* ---- printing ---- */

/* The first line of a tensor's text in colour. */
static void
print_text(lua_State *L, const char *text, bool tensor)
{
    bool color = shell_of(L)->color && tensor;
    size_t n = color ? strcspn(text, "\n") : 0;
    if (color) printf("\033[36m%.*s\033[0m", (int)n, text);
    puts(text + n);
}

static int
show_all(lua_State *L)
{
    int n = lua_gettop(L);
    for (int i = 1; i <= n; i++) {
        show_value(L, i);
        print_text(L, lua_tostring(L, -1), tensor_test(L, i) != NULL);
        lua_pop(L, 1);
    }
    return 0;
}

static void
keep_last(lua_State *L, int i)
{
    repl_push_environment(L);
    lua_pushliteral(L, "_");
    lua_pushvalue(L, i);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

void
repl_show(lua_State *L, int first)
{
    int n = lua_gettop(L) - first + 1;
    if (n <= 0) return;
    keep_last(L, first);
    lua_pushcfunction(L, show_all);
    for (int k = 0; k < n; k++) lua_pushvalue(L, first + k);
    lua_call(L, n, 0);
}

/* A frame that tells the user nothing: C functions, tail calls, the chunk itself. */
static bool
is_dull(const char *frame, size_t size)
{
    static const char *const dull[] = {"[C]:", "(...", ": in main chunk"};
    for (size_t k = 0; k < sizeof dull / sizeof *dull; k++) {
        const char *found = strstr(frame, dull[k]);
        if (found && found < frame + size) return true;
    }
    return false;
}

/* The message, and the user's functions that it came through. */
static void
print_error(lua_State *L, const char *text)
{
    bool color = shell_of(L)->color && isatty(2);
    const char *trace = strstr(text, "\nstack traceback:");
    size_t size = trace ? (size_t)(trace - text) : strlen(text);
    fflush(stdout);
    fprintf(stderr, "%s%.*s%s\n", color ? "\033[31m" : "", (int)size, text, color ? "\033[0m" : "");
    const char *line = trace ? strchr(trace + 1, '\n') : NULL;
    while (line) {
        const char *end = strchr(++line, '\n');
        size_t n = end ? (size_t)(end - line) : strlen(line);
        if (!is_dull(line, n)) fprintf(stderr, "%.*s\n", (int)n, line);
        line = end;
    }
}

static int
failed(lua_State *L)
{
    print_error(L, lua_tostring(L, -1));
    lua_settop(L, 0);
    return 0;
}

/* ---- evaluating ---- */

static int
show_protected(lua_State *L)
{
    repl_show(L, 1);
    return 0;
}

static bool
is_silent(const char *chunk)
{
    size_t n = strlen(chunk);
    while (n && isspace((unsigned char)chunk[n - 1])) n--;
    return n && chunk[n - 1] == ';';
}

/* "x;" is the expression x. Pushes the chunk as it is to be tried. */
static void
push_chunk(lua_State *L, const char *chunk)
{
    size_t n = strlen(chunk);
    while (n && (isspace((unsigned char)chunk[n - 1]) || chunk[n - 1] == ';')) n--;
    lua_pushlstring(L, chunk, n);
}

static void
run_chunk(lua_State *L, bool silent)
{
    if (run_quiet(L, 0, LUA_MULTRET)) {
        failed(L);
        return;
    }
    int n = lua_gettop(L);
    if (n && silent) keep_last(L, 1);
    if (n && !silent) {
        lua_pushcfunction(L, show_protected);
        lua_insert(L, 1);
        if (run_quiet(L, n, 0)) failed(L);
    }
    lua_settop(L, 0);
    collect_if_due(L);
}

/* Runs what was typed so far; true when it wants more lines. */
static bool
evaluate(lua_State *L, const char *chunk, int number)
{
    char name[32];
    bool more = false, silent = is_silent(chunk);
    snprintf(name, sizeof name, "=shell:%d", number);
    lua_settop(L, 0);
    repl_push_environment(L);
    push_chunk(L, chunk);
    int code = repl_load(L, 1, silent ? lua_tostring(L, 2) : chunk, name, &more);
    if (code && more) return true;
    if (code) return failed(L);
    lua_replace(L, 1);
    lua_settop(L, 1);
    run_chunk(L, silent);
    return false;
}

/* ---- commands and pages ---- */

static int
command_protected(lua_State *L)
{
    lua_pushinteger(L, command_run(L, 1, lua_tostring(L, 2)));
    return 1;
}

static int
page_protected(lua_State *L)
{
    const char *name = lua_tostring(L, 2);
    if (!help_push(L, name)) return luaL_error(L, "nothing is called '%s'; rille.help() lists names", name);
    puts(lua_tostring(L, -1));
    return 0;
}

/* What is typed with a mark before it; COMMAND_QUIT or COMMAND_DONE. */
static int
run_marked(lua_State *L, lua_CFunction function, const char *text)
{
    size_t n = strlen(text);
    while (n && isspace((unsigned char)text[n - 1])) n--;
    lua_settop(L, 0);
    lua_pushcfunction(L, function);
    repl_push_environment(L);
    lua_pushlstring(L, text, n);
    if (run_quiet(L, 2, 1)) return failed(L), COMMAND_DONE;
    int result = (int)lua_tointeger(L, -1);
    lua_settop(L, 0);
    return result;
}

/* ---- the loop ---- */

struct input {
    char *chunk; /* what was typed so far */
    int number;  /* of the chunk, from 1 */
};

static void
append(struct input *in, const char *line)
{
    size_t n = in->chunk ? strlen(in->chunk) : 0;
    char *all = realloc(in->chunk, n + strlen(line) + 2);
    if (!all) return;
    if (n) all[n++] = '\n';
    strcpy(all + n, line);
    in->chunk = all;
}

static void
next_chunk(struct input *in)
{
    free(in->chunk);
    in->chunk = NULL;
    in->number++;
}

/* One line of input; COMMAND_QUIT ends the loop. */
static int
take_line(lua_State *L, struct input *in, const char *line)
{
    const char *first = line + strspn(line, " \t");
    int end = COMMAND_DONE;
    if (!in->chunk && !*first) return end;
    bool marked = !in->chunk && (first[0] == '?' || (first[0] == ':' && first[1] != ':'));
    append(in, line);
    if (marked && first[0] == '?')
        run_marked(L, page_protected, first + 1 + strspn(first + 1, " \t"));
    else if (marked)
        end = run_marked(L, command_protected, first + 1);
    else if (evaluate(L, in->chunk, in->number))
        return COMMAND_DONE;
    edit_remember(in->chunk);
    next_chunk(in);
    return end;
}

static void
remember_globals(lua_State *L)
{
    lua_newtable(L);
    lua_pushglobaltable(L);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        lua_pushvalue(L, -2);
        lua_pushboolean(L, true);
        lua_rawset(L, -6);
    }
    lua_pop(L, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &own_globals);
}

int
repl_run(lua_State *L)
{
    struct input in = {.number = 1};
    enum edit_end end;
    char *line;
    int state = COMMAND_DONE;
    struct rille_session *s = shell_of(L)->session;
    remember_globals(L);
    local_environment(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &environment);
    printf("rille %s on %s:%d, %s. :help tells more.\n", RILLE_VERSION, rille_default_kind(s),
           rille_device_count(s, rille_default_kind(s)), LUA_RELEASE);
    edit_open(L);
    void (*before)(int) = signal(SIGINT, SIG_IGN); /* between reading and running */
    while (state != COMMAND_QUIT) {
        fflush(stdout);
        end = edit_line(in.chunk ? "    .. " : "rille> ", &line);
        if (end == EDIT_EOF) break;
        if (end == EDIT_INTERRUPT)
            next_chunk(&in);
        else
            state = take_line(L, &in, line);
        free(line);
    }
    if (end == EDIT_EOF) putchar('\n');
    free(in.chunk);
    edit_close();
    signal(SIGINT, before);
    return 0;
}
