/* command.c - runs commands typed with a colon: inspect the session, measure time, quit. */
#include "shell/repl/command.h"
#include "shell/bind/base/fold.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/step/lua_actors.h"
#include "shell/bind/base/clock.h"
#include "shell/repl/repl.h"
#include "shell/repl/top.h"
#include "shell/repl/chunk.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_DEVICES = 4 };

static const char next_step; /* registry key of the number of the next step */

/* Returns the step that the text names; an empty text names the next step. */
static int
step_of(lua_State *L, const char *text, int nstep)
{
    char *end;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &next_step);
    long step = *text ? strtol(text, &end, 10) : lua_isinteger(L, -1) ? (long)lua_tointeger(L, -1) : 1;
    lua_pop(L, 1);
    if (*text && (*end || step < 1 || step > nstep))
        luaL_error(L, ":tutorial: the step must be a number from 1 to %d, found '%s'", nstep, text);
    return (int)step;
}

static void
describe_own_devices(lua_State *L)
{
    struct rille_session *s = shell_of(L)->session;
    if (rille_device_count(s, "cpu") < LEAST_DEVICES)
        luaL_error(L, ":tutorial needs %d cpu devices, found %d; start rille with -d cpu:%d", LEAST_DEVICES,
                   rille_device_count(s, "cpu"), LEAST_DEVICES);
}

/* Prints words in lines that fit the width of the terminal. */
static void
print_folded(const char *text)
{
    int width = 0, most = print_columns() - 1;
    for (text += strspn(text, " \n"); *text; text += strspn(text, " \n")) {
        int n = (int)strcspn(text, " \n");
        bool fits = width + 1 + n <= most;
        printf("%s%.*s", width == 0 ? "" : fits ? " " : "\n", n, text);
        width = width && fits ? width + 1 + n : n;
        text += n;
    }
    puts("\n");
}

/* Prints the title and text of the step at the top of the stack. */
static void
show_step_number(lua_State *L, int step, int nstep)
{
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    printf("\n%d of %d. %s\n\n", step, nstep, lua_tostring(L, -2));
    print_folded(lua_tostring(L, -1));
    lua_pop(L, 2);
}

/* Runs a line. told: also prints the line and its values, as if the line had been typed. */
static void
run_tutorial_line(lua_State *L, int env, const char *line, bool told)
{
    bool more;
    int before = lua_gettop(L);
    if (told) printf("%s%s\n", PROMPT, line);
    fflush(stdout);
    if (chunk_load(L, env, line, "=(tutorial)", &more)) lua_error(L);
    lua_call(L, 0, LUA_MULTRET);
    if (told && !chunk_is_silent(line)) repl_show(L, before + 1);
    lua_settop(L, before);
}

/* Runs the lines of the step at the top of the stack. */
static void
run_step(lua_State *L, int env, bool told)
{
    int step = lua_gettop(L);
    for (int k = 3; lua_rawgeti(L, step, k) == LUA_TTABLE; k++, lua_settop(L, step)) {
        bool look = lua_getfield(L, -1, "look") != LUA_TNIL;
        lua_rawgeti(L, step + 1, 1);
        if (told || !look) run_tutorial_line(L, env, lua_tostring(L, -1), told);
    }
    lua_settop(L, step);
}

/* Runs the tutorial step that the text names, or else the next step. */
static void
tutorial_run(lua_State *L, int env, const char *text)
{
    lua_getglobal(L, "require");
    lua_pushliteral(L, "rille.pages.tutorial");
    lua_call(L, 1, 1);
    int steps = lua_gettop(L), nstep = (int)lua_rawlen(L, steps), next = step_of(L, "", nstep);
    int step = step_of(L, text, nstep);
    describe_own_devices(L);
    for (; next < step; next++) { /* runs the lines of earlier steps, because this step uses their variables */
        lua_rawgeti(L, steps, next);
        run_step(L, env, false);
        lua_pop(L, 1);
    }
    lua_rawgeti(L, steps, step);
    show_step_number(L, step, nstep);
    run_step(L, env, true);
    lua_pushinteger(L, step % nstep + 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &next_step);
    if (step == nstep) return;
    lua_pushfstring(L, "\nTry it with other numbers. :tutorial continues with step %d.", step + 1);
    fold_print(lua_tostring(L, -1));
}

/* Pushes the values of the expression in text, and returns the number of values. */
static int
evaluate_command(lua_State *L, int env, const char *text, const char *command)
{
    bool more;
    int before = lua_gettop(L);
    if (!*text) luaL_error(L, ":%s: expected an expression", command);
    if (chunk_load(L, env, text, "=(command)", &more)) lua_error(L);
    lua_call(L, 0, LUA_MULTRET);
    return lua_gettop(L) - before;
}

/* ---- the commands. Arguments: L; stack index of the environment; the text after the command's name ---- */

static int command_help(lua_State *L, int env, const char *text);

/* Runs :time fn(x): measures the time until all returned tensors are computed and all work has ended. */
static int
command_time(lua_State *L, int env, const char *text)
{
    int first = lua_gettop(L) + 1;
    double start = clock_seconds();
    evaluate_command(L, env, text, "time");
    for (int i = first; i <= lua_gettop(L); i++) {
        struct rille_tensor *t = tensor_test(L, i);
        at_line(L);
        if (t) check(L, rille_eval(shell_of(L)->session, 1, &t));
    }
    check(L, rille_wait(shell_of(L)->session));
    double seconds = clock_seconds() - start;
    repl_show(L, first);
    if (seconds < 1e-3)
        printf("%.1f us\n", seconds * 1e6);
    else if (seconds < 1)
        printf("%.2f ms\n", seconds * 1e3);
    else
        printf("%.3f s\n", seconds);
    return COMMAND_DONE;
}

static int
compare_entries(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Appends {name, value} for each of the user's names in the table at index i, in order, to the list at the top of
 * the stack. */
static void
list_variables(lua_State *L, int i)
{
    int list = lua_gettop(L), n = 0, capacity = 0;
    for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) capacity++;
    const char **names = lua_newuserdatauv(L, ((size_t)capacity + 1) * sizeof *names, 0);
    for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TSTRING && !repl_is_own(L, lua_tostring(L, -2))) names[n++] = lua_tostring(L, -2);
    qsort(names, (size_t)n, sizeof *names, compare_entries);
    for (int k = 0; k < n; k++) {
        lua_createtable(L, 2, 0);
        lua_pushstring(L, names[k]);
        lua_rawseti(L, -2, 1);
        lua_pushstring(L, names[k]);
        lua_rawget(L, i);
        lua_rawseti(L, -2, 2);
        lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
    }
    lua_pop(L, 1);
}

/* Pushes the value that lua/show/FILE.lua returns, or a field of that value. */
static void
push_picture(lua_State *L, const char *file, const char *field)
{
    lua_getglobal(L, "require");
    lua_pushfstring(L, "rille.show.%s", file);
    lua_call(L, 1, 1);
    if (field) lua_getfield(L, -1, field);
}

/* Calls the function of a picture with the n values above it and the terminal's width, and prints the result. */
static int
print_picture(lua_State *L, int n)
{
    lua_pushinteger(L, print_columns());
    lua_call(L, n + 1, 1);
    fold_print(lua_tostring(L, -1));
    return COMMAND_DONE;
}

static void
push_variables(lua_State *L, int env)
{
    lua_newtable(L);
    int list = lua_gettop(L);
    lua_pushvalue(L, env);
    lua_insert(L, list);
    list_variables(L, list);
    lua_pushglobaltable(L);
    lua_replace(L, list);
    list_variables(L, list);
    lua_remove(L, list);
}

static int
command_whos(lua_State *L, int env, const char *text)
{
    (void)text;
    push_picture(L, "whos", "whos");
    push_variables(L, env);
    return print_picture(L, 1);
}

static int
command_mem(lua_State *L, int env, const char *text)
{
    (void)text;
    push_picture(L, "whos", "mem");
    push_variables(L, env);
    lua_pushinteger(L, rille_external_bytes(shell_of(L)->session));
    return print_picture(L, 2);
}

static void
print_counters(lua_State *L)
{
    struct rille_counters c = {0};
    rille_count(shell_of(L)->session, &c);
    lua_pushfstring(L, "  since the session began: plans stored %I, compiled %I, reused %I; runs %I\n",
                    (lua_Integer)c.plans, (lua_Integer)c.compiles, (lua_Integer)c.cache_hits, (lua_Integer)c.runs);
    lua_pushfstring(L, "    acts %I; messages %I, between threads %I\n", (lua_Integer)c.acts, (lua_Integer)c.messages,
                    (lua_Integer)c.thread_messages);
    lua_pushfstring(L, "    operators called %I; stored now: operators %I, values %I", (lua_Integer)c.nodes,
                    (lua_Integer)c.live_nodes, (lua_Integer)c.live_values);
    lua_concat(L, 3);
    fold_print(lua_tostring(L, -1));
}

/* :actors [STEP]: shows the actors of the last plan that ran, or of a compiled step. */
static int
command_actors(lua_State *L, int env, const char *text)
{
    if (*text) {
        evaluate_command(L, env, text, "actors");
        if (!kind_test(L, -1, KIND_GRAPH))
            return luaL_error(L, ":actors: expected a compiled step, found %s", what_is(L, -1));
        lua_getfield(L, -1, "actors");
        lua_insert(L, -2);
        lua_call(L, 1, 1);
    } else {
        actors_push(L, NULL);
    }
    push_picture(L, "actors", NULL);
    lua_insert(L, -2);
    print_picture(L, 1);
    print_counters(L);
    return COMMAND_DONE;
}

/* Runs :top [EXPR]. */
static int
command_top(lua_State *L, int env, const char *text)
{
    bool more;
    int first = lua_gettop(L) + 1;
    if (!*text) {
        top_watch(L);
        return COMMAND_DONE;
    }
    if (chunk_load(L, env, text, "=(command)", &more) || top_run(L, 0)) return lua_error(L);
    repl_show(L, first);
    return COMMAND_DONE;
}

static int
command_devices(lua_State *L, int env, const char *text)
{
    struct rille_session *s = shell_of(L)->session;
    const char *kind = rille_default_kind(s);
    (void)env, (void)text;
    if (!kind) return luaL_error(L, "the session was closed");
    printf("  %d of kind %s\n", rille_device_count(s, kind), kind);
    push_picture(L, "whos", "devices");
    return print_picture(L, 0);
}

static int
command_workers(lua_State *L, int env, const char *text)
{
    (void)env, (void)text;
    push_picture(L, "whos", "workers");
    return print_picture(L, 0);
}

/* Calls rille.NAME with the values, or the method NAME of a compiled step, and prints the result. */
static int
command_look(lua_State *L, int env, const char *text, const char *name)
{
    int n = evaluate_command(L, env, text, name), first = lua_gettop(L) - n + 1;
    if (n && kind_test(L, first, KIND_GRAPH)) {
        lua_getfield(L, first, name);
        lua_pushvalue(L, first);
        n = 1;
    } else {
        lua_getglobal(L, "rille");
        lua_getfield(L, -1, name);
        lua_remove(L, -2);
        for (int k = 0; k < n; k++) lua_pushvalue(L, first + k);
    }
    lua_call(L, n, 1);
    fold_print(luaL_tolstring(L, -1, NULL));
    return COMMAND_DONE;
}

static int
command_explain(lua_State *L, int env, const char *text)
{
    return command_look(L, env, text, "explain");
}

static int
command_plan(lua_State *L, int env, const char *text)
{
    return command_look(L, env, text, "plan");
}

/* Runs :trace step run.json. */
static int
command_trace(lua_State *L, int env, const char *text)
{
    const char *space = strrchr(text, ' ');
    if (!space || !space[1]) return luaL_error(L, ":trace STEP FILE: writes the times of a graph's last run");
    const char *step = lua_pushlstring(L, text, (size_t)(space - text));
    int first = lua_gettop(L) + 1;
    evaluate_command(L, env, step, "trace");
    lua_settop(L, first);
    if (!kind_test(L, -1, KIND_GRAPH))
        return luaL_error(L, ":trace: expected a compiled step, found %s", what_is(L, -1));
    lua_getfield(L, -1, "trace");
    lua_insert(L, -2);
    lua_pushstring(L, space + 1);
    lua_call(L, 2, 0);
    lua_pushfstring(L, "  %s; open it in ui.perfetto.dev", space + 1);
    fold_print(lua_tostring(L, -1));
    return COMMAND_DONE;
}

static int
command_doctor(lua_State *L, int env, const char *text)
{
    (void)env;
    shell_of(L)->doctor(L, !strcmp(text, "--json"));
    return COMMAND_DONE;
}

static int
command_tutorial(lua_State *L, int env, const char *text)
{
    tutorial_run(L, env, text);
    return COMMAND_DONE;
}

static int
command_quit(lua_State *L, int env, const char *text)
{
    (void)L, (void)env, (void)text;
    return COMMAND_QUIT;
}

static const struct command {
    const char *name, *help;
    int (*run)(lua_State *L, int env, const char *text);
} commands[] = {
    {"help", "[NAME]       this list, or the page of a name, also ?NAME; ?learning rate searches pages", command_help},
    {"tutorial", "[N]      ten short steps, on this machine; each time the next, or step N", command_tutorial},
    {"time", "EXPR         measures the time to compute EXPR", command_time},
    {"whos", "             your variables: type, layout, bytes", command_whos},
    {"actors", "[STEP]     actors of the last plan, or of a step: acts done, causes of waits", command_actors},
    {"top", "[EXPR]        activity of devices now, or while EXPR is computed; q leaves", command_top},
    {"devices", "          devices in use", command_devices},
    {"workers", "          worker processes", command_workers},
    {"mem", "              memory of devices, by owner", command_mem},
    {"explain", "EXPR      layouts, alternatives and moves (boxing) of a tensor or a step", command_explain},
    {"plan", "EXPR         tasks, registers and memory of the plan of EXPR", command_plan},
    {"trace", "STEP FILE   times of a graph's last run, as Chrome trace JSON", command_trace},
    {"doctor", "[--json]   hardware, libraries and settings", command_doctor},
    {"quit", "             leave; also Ctrl-D", command_quit},
    {NULL, NULL, NULL},
};

const char *
command_name(int i)
{
    return commands[i].name;
}

/* Pushes the line that :help prints for the command. */
static void
push_line(lua_State *L, const struct command *c)
{
    lua_pushfstring(L, "  :%s %s\n", c->name, c->help);
}

bool
command_push_page(lua_State *L, const char *name)
{
    for (const struct command *c = commands; c->name; c++) {
        if (strcmp(c->name, name)) continue;
        push_line(L, c);
        return true;
    }
    return false;
}

static int
command_help(lua_State *L, int env, const char *text)
{
    if (*text) {
        repl_show_page(L, env, text);
        return COMMAND_DONE;
    }
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (const struct command *c = commands; c->name; c++) {
        push_line(L, c);
        luaL_addvalue(&b);
    }
    luaL_addstring(
        &b, "  ?NAME and NAME? are pages, rille.help() lists them. A trailing ; is silent, _ is the last value.\n"
            "  Ctrl-C stops what runs; Ctrl-D ends.");
    luaL_pushresult(&b);
    fold_print(lua_tostring(L, -1));
    return COMMAND_DONE;
}

/* Runs a command. Raises if an argument is given to a command that accepts none; the help text of such a command
 * begins with a space. */
static int
run_command(lua_State *L, const struct command *c, int env, const char *text)
{
    if (*text && *c->help == ' ') return luaL_error(L, ":%s accepts no argument, found '%s'", c->name, text);
    return c->run(L, env, text);
}

int
command_run(lua_State *L, int env, const char *line)
{
    size_t n = strcspn(line, " \t");
    const char *text = line + n + strspn(line + n, " \t");
    const struct command *found = NULL;
    int matches = 0;
    for (const struct command *c = commands; c->name; c++) {
        if (strncmp(c->name, line, n)) continue;
        found = c;
        matches++;
        if (!c->name[n]) return run_command(L, c, env, text);
    }
    /* the typed name is an unambiguous prefix of a command's name */
    if (n && matches == 1) return run_command(L, found, env, text);
    lua_pushlstring(L, line, n);
    return luaL_error(L, "unknown command ':%s'; :help lists all", lua_tostring(L, -1));
}
