/* repl.c - the shell: reads a chunk, runs it, and prints its values.
 *
 * Lines are gathered until Lua accepts the chunk as complete. The values of its last expression are printed unless
 * the chunk ends in ";". An error or Ctrl-C discards the chunk and leaves the session unchanged; so does Ctrl-D in an
 * incomplete chunk. */
#include "shell/repl/repl.h"
#include "shell/run/show.h"
#include "shell/run/pattern.h"
#include "shell/repl/local.h"
#include "shell/repl/edit.h"
#include "shell/repl/command.h"
#include "shell/repl/chunk.h"
#include "shell/bind/base/fold.h"
#include "shell/bind/module/help.h"
#include "shell/run/interrupt.h"
#include "shell/run/run.h"
#include "shell/repl/repl.h"

#include "shell/bind/base/clock.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* registry keys: the chunks' environment; the set of globals that existed before the user's code */
static const char environment, own_globals;

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

/* ---- printing ---- */

/* Prints the text of a tensor, the first line in colour. */
static void
print_shown(lua_State *L, const char *text)
{
    bool color = shell_of(L)->color;
    size_t n = color ? strcspn(text, "\n") : 0;
    if (color) printf("\033[36m%.*s\033[0m", (int)n, text);
    puts(text + n);
}

/* Prints the text at the top of the stack, which describes the value at i. A string is printed unchanged; other
 * texts are folded, except the texts of tensors. */
static void
print_text(lua_State *L, int i)
{
    size_t n;
    const char *text = lua_tolstring(L, -1, &n);
    if (tensor_test(L, i)) {
        print_shown(L, text);
    } else if (lua_type(L, i) != LUA_TSTRING) {
        fold_print(text);
    } else {
        fwrite(text, 1, n, stdout);
        putchar('\n');
    }
}

static int
show_all(lua_State *L)
{
    int n = lua_gettop(L);
    for (int i = 1; i <= n; i++) {
        if (lua_isnil(L, i)) continue;
        show_value(L, i);
        print_text(L, i);
        lua_pop(L, 1);
    }
    return 0;
}

void
repl_keep_last(lua_State *L, int i)
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
    repl_keep_last(L, first);
    lua_pushcfunction(L, show_all);
    for (int k = 0; k < n; k++) lua_pushvalue(L, first + k);
    lua_call(L, n, 0);
}

/* Returns true if a frame of the traceback tells the user nothing: a C function, a tail call, the chunk itself, a
 * Rille module. */
static bool
is_dull(const char *frame, size_t size)
{
    static const char *const dull[] = {"[C]:", "(...tail", ": in main chunk", "\trille."};
    for (size_t k = 0; k < sizeof dull / sizeof *dull; k++) {
        const char *found = strstr(frame, dull[k]);
        if (found && found < frame + size) return true;
    }
    return false;
}

enum { FRAMES = 20 }; /* maximum number of lines of a traceback */

/* Prints a line of a traceback, folded to the width of the terminal. */
static void
print_frame(FILE *to, const char *line, size_t n)
{
    int columns = terminal_columns(fileno(to));
    char *text = strndup(line, n), *folded = text && columns ? fold_text(text, columns) : NULL;
    fprintf(to, "%s\n", folded ? folded : text ? text : "");
    free(folded);
    free(text);
}

static void
tell_equal(FILE *to, int n)
{
    if (n == 1) fputs("\t... and once more\n", to);
    if (n > 1) fprintf(to, "\t... and %d times more\n", n);
}

void
repl_print_frames(FILE *to, const char *text)
{
    const char *trace = strstr(text, "\nstack traceback:"), *line = trace ? strchr(trace + 1, '\n') : NULL;
    const char *last = NULL;
    size_t last_size = 0;
    int equal = 0, told = 0;
    while (line) {
        const char *end = strchr(++line, '\n');
        size_t n = end ? (size_t)(end - line) : strlen(line);
        bool dull = is_dull(line, n), same = !dull && last && n == last_size && !strncmp(line, last, n);
        if (same) equal++;
        if (!same && equal) tell_equal(to, equal), told++;
        if (!same) equal = 0;
        if (!same && !dull && told++ < FRAMES) print_frame(to, line, n);
        last = dull ? NULL : line;
        last_size = n;
        line = end;
    }
    tell_equal(to, equal);
}

static void
print_error(lua_State *L, const char *text)
{
    bool color = shell_of(L)->color && isatty(2);
    const char *trace = strstr(text, "\nstack traceback:");
    size_t size = trace ? (size_t)(trace - text) : strlen(text);
    fflush(stdout);
    lua_pushlstring(L, text, size);
    fputs(color ? "\033[31m" : "", stderr);
    tell_error(lua_tostring(L, -1));
    fputs(color ? "\033[0m\n" : "\n", stderr);
    lua_pop(L, 1);
    repl_print_frames(stderr, text);
}

static int
repl_failed(lua_State *L)
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

/* Pushes the chunk without trailing blanks and ";", so that the expression in "x;" is tried as an expression. */
static void
push_compiled_chunk(lua_State *L, const char *chunk)
{
    size_t n = strlen(chunk);
    while (n && (isspace((unsigned char)chunk[n - 1]) || chunk[n - 1] == ';')) n--;
    lua_pushlstring(L, chunk, n);
}

/* Prints how long a line took, if that is half a second or more and the output is a terminal. */
static void
tell_time(lua_State *L, double seconds)
{
    int columns = terminal_columns(1);
    if (seconds < 0.5 || !isatty(1)) return;
    if (columns < 12) columns = 80;
    char text[32];
    snprintf(text, sizeof text, seconds < 100 ? "%.2f s" : "%.0f s", seconds);
    bool color = shell_of(L)->color;
    printf("%s%*s%s\n", color ? "\033[2m" : "", columns - 1, text, color ? "\033[0m" : "");
}

static void
run_values(lua_State *L, bool silent)
{
    if (run_quiet(L, 0, LUA_MULTRET)) {
        repl_failed(L);
        return;
    }
    int n = lua_gettop(L);
    if (n && silent) repl_keep_last(L, 1);
    if (n && !silent) {
        lua_pushcfunction(L, show_protected);
        lua_insert(L, 1);
        if (run_quiet(L, n, 0)) repl_failed(L);
    }
    lua_settop(L, 0);
    collect_if_due(L);
}

static void
run_chunk(lua_State *L, bool silent)
{
    double start = clock_seconds();
    run_values(L, silent);
    tell_time(L, clock_seconds() - start);
}

/* Runs the text typed so far. Returns true if the chunk needs more lines. */
static bool
evaluate_chunk(lua_State *L, const char *chunk, int number)
{
    char name[32];
    bool more = false, silent = chunk_is_silent(chunk);
    snprintf(name, sizeof name, "=shell:%d", number);
    lua_settop(L, 0);
    repl_push_environment(L);
    push_compiled_chunk(L, chunk);
    int code = chunk_load(L, 1, silent ? lua_tostring(L, 2) : chunk, name, &more);
    if (code && more) return true;
    if (code) return repl_failed(L);
    lua_replace(L, 1);
    lua_settop(L, 1);
    run_chunk(L, silent);
    return false;
}

/* ---- commands and pages ---- */

/* Pushes the value of the user's variable: of a local if there is one, else of a global; nil: no such variable. */
static void
push_variable(lua_State *L, int env, const char *name)
{
    lua_pushstring(L, name);
    if (lua_rawget(L, env) != LUA_TNIL) return;
    lua_pop(L, 1);
    lua_pushglobaltable(L);
    lua_pushstring(L, name);
    lua_rawget(L, -2);
}

bool
repl_push_page(lua_State *L, int env, const char *name)
{
    if (*name == ':' && command_push_page(L, name + 1)) return true;
    if (help_push(L, name)) return true;
    push_variable(L, env, name);
    return help_push_about(L, -1);
}

void
repl_show_page(lua_State *L, int env, const char *name)
{
    if (!repl_push_page(L, env, name) && !help_push_found(L, name)) luaL_error(L, "%s", help_missing(L, name));
    fold_print(lua_tostring(L, -1));
}

int
repl_marked(lua_State *L)
{
    const char *text = lua_tostring(L, 1), *command = text + strspn(text, " \t\n") + 1;
    size_t n;
    const char *page = chunk_page(text, &n);
    lua_settop(L, 1);
    repl_push_environment(L);
    if (page && n) {
        repl_show_page(L, 2, lua_pushlstring(L, page, n));
        return 0;
    }
    command += strspn(command, " \t");
    for (n = strlen(command); n && isspace((unsigned char)command[n - 1]);) n--;
    lua_pushinteger(L, command_run(L, 2, page ? "help" : lua_pushlstring(L, command, n)));
    return 1;
}

/* Runs a command, or prints a help page. Returns COMMAND_QUIT or COMMAND_DONE. */
static int
run_marked(lua_State *L, const char *chunk)
{
    lua_settop(L, 0);
    lua_pushcfunction(L, repl_marked);
    lua_pushstring(L, chunk);
    if (run_quiet(L, 1, 1)) return repl_failed(L), COMMAND_DONE;
    int result = (int)lua_tointeger(L, -1);
    lua_settop(L, 0);
    return result;
}

int
repl_chunk(lua_State *L, const char *chunk, int number, bool *more)
{
    *more = false;
    if (chunk_is_marked(chunk)) return run_marked(L, chunk);
    *more = evaluate_chunk(L, chunk, number);
    return COMMAND_DONE;
}

/* ---- the loop ---- */

struct input {
    char *chunk; /* the text typed so far; NULL: nothing */
    int number;  /* number of the chunk, from 1 */
    repl_take *take;
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

/* Runs a transcript (text pasted with its prompts), one chunk after the other, as if the chunks were typed. */
static int
take_transcript(lua_State *L, struct input *in)
{
    int end = COMMAND_DONE, n = 0;
    bool more;
    for (;;) {
        lua_settop(L, 0);
        chunk_push_transcript(L, in->chunk);
        lua_rawgeti(L, 1, ++n);
        const char *chunk = lua_tostring(L, 2);
        char *copy = chunk && end != COMMAND_QUIT ? strdup(chunk) : NULL;
        lua_settop(L, 0);
        if (!copy) return end;
        copy[strlen(copy) - 1] = 0; /* removes the newline */
        edit_remember(copy);
        end = in->take(L, copy, in->number, &more);
        in->number++;
        free(copy);
    }
}

/* Adds input to the chunk: one line, or a whole chunk from an editor that returns several lines. Runs the chunk if
 * it is complete. */
static int
take_line(lua_State *L, struct input *in, const char *line)
{
    int end = COMMAND_DONE;
    bool more;
    if (!in->chunk && !line[strspn(line, " \t\n")]) return end;
    append(in, line);
    if (chunk_is_transcript(in->chunk)) {
        end = take_transcript(L, in);
    } else {
        /* the chunk is stored in the history before it runs, because it may end the program */
        if (!chunk_wants_more(L, in->chunk)) edit_remember(in->chunk);
        end = in->take(L, in->chunk, in->number, &more);
        if (more) return end;
    }
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

void
repl_prepare(lua_State *L)
{
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &environment) == LUA_TNIL) {
        remember_globals(L);
        pattern_open(L);
        local_environment(L);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &environment);
    }
    lua_pop(L, 1);
}

void
repl_open(lua_State *L)
{
    repl_prepare(L);
    interrupt_interactive();
    signal(SIGINT, SIG_IGN); /* Ctrl-C is ignored between reading and running a chunk */
}

int
repl_loop(lua_State *L, repl_take *take)
{
    struct input in = {.number = 1, .take = take};
    enum edit_end end;
    char *line;
    int state = COMMAND_DONE;
    void (*before)(int) = signal(SIGINT, SIG_IGN);
    edit_open(L);
    while (state != COMMAND_QUIT) {
        fflush(stdout);
        end = edit_line(in.chunk ? PROMPT_MORE : PROMPT, &line);
        if (end == EDIT_EOF && (!in.chunk || interrupt_quit())) break;
        if (end == EDIT_EOF) putchar('\n');
        if (end != EDIT_LINE)
            next_chunk(&in);
        else
            state = take_line(L, &in, line);
        free(line);
    }
    if (end == EDIT_EOF) putchar('\n');
    free(in.chunk);
    edit_close();
    signal(SIGINT, before);
    return interrupt_quit() ? 128 + interrupt_quit() : 0;
}

int
repl_run(lua_State *L)
{
    struct rille_session *s = shell_of(L)->session;
    repl_open(L);
    const char *kind = rille_default_kind(s);
    int n = rille_device_count(s, kind);
    lua_pushfstring(L, n == 1 ? "%s:0" : "%s:0 to %s:%d", kind, kind, n - 1);
    lua_pushfstring(L, "rille %s on %s, %s. :help lists commands.", RILLE_VERSION, lua_tostring(L, -1), LUA_RELEASE);
    fold_print(lua_tostring(L, -1));
    lua_pop(L, 2);
    return repl_loop(L, repl_chunk);
}
