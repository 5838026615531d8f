/* command.c - what is typed with a colon: looking at the session, timing, leaving. */
#include "shell/repl.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Pushes what the text gives; how many values. */
static int
evaluate(lua_State *L, int env, const char *text, const char *command)
{
    bool more;
    int before = lua_gettop(L);
    if (!*text) luaL_error(L, ":%s: an expression is wanted", command);
    if (chunk_load(L, env, text, "=(command)", &more)) lua_error(L);
    lua_call(L, 0, LUA_MULTRET);
    return lua_gettop(L) - before;
}

static void
print_bytes(const char *what, int64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double amount = (double)bytes;
    int unit = 0;
    while (amount >= 1024 && unit < 4) amount /= 1024, unit++;
    printf("  %-28s %.*f %s\n", what, unit ? 1 : 0, amount, units[unit]);
}

/* ---- the commands: L, the environment's index, the text behind the name ---- */

static int command_help(lua_State *L, int env, const char *text);

/* :time fn(x): tensors that it gives are computed. */
static int
command_time(lua_State *L, int env, const char *text)
{
    int first = lua_gettop(L) + 1;
    double start = now();
    evaluate(L, env, text, "time");
    for (int i = first; i <= lua_gettop(L); i++) {
        struct rille_tensor *t = tensor_test(L, i);
        at_line(L);
        if (t) check(L, rille_eval(shell_of(L)->session, 1, &t));
    }
    double seconds = now() - start;
    repl_show(L, first);
    if (seconds < 1e-3)
        printf("%.1f us\n", seconds * 1e6);
    else if (seconds < 1)
        printf("%.2f ms\n", seconds * 1e3);
    else
        printf("%.3f s\n", seconds);
    return COMMAND_DONE;
}

static void
print_variable(lua_State *L, const char *name, int value)
{
    luaL_Buffer b;
    struct rille_tensor *t = tensor_test(L, value);
    luaL_buffinit(L, &b);
    if (t)
        print_head(L, &b, t);
    else
        luaL_addstring(&b, luaL_typename(L, value));
    luaL_pushresult(&b);
    printf("  %-16s %s", name, lua_tostring(L, -1));
    if (t)
        printf(", %lld bytes", (long long)(rille_tensor_numel(t) * (int64_t)rille_dtype_bytes(rille_tensor_dtype(t))));
    putchar('\n');
    lua_pop(L, 1);
}

static int
compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Prints the user's names in the table at the top, in order. */
static void
print_variables(lua_State *L)
{
    int table = lua_gettop(L), n = 0, capacity = 0;
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) capacity++;
    const char **names = lua_newuserdatauv(L, ((size_t)capacity + 1) * sizeof *names, 0);
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TSTRING && !repl_is_own(L, lua_tostring(L, -2))) names[n++] = lua_tostring(L, -2);
    qsort(names, (size_t)n, sizeof *names, compare);
    for (int k = 0; k < n; k++) {
        lua_pushstring(L, names[k]);
        lua_rawget(L, table);
        print_variable(L, names[k], lua_gettop(L));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static int
command_whos(lua_State *L, int env, const char *text)
{
    (void)text;
    lua_pushvalue(L, env);
    print_variables(L);
    lua_pushglobaltable(L);
    print_variables(L);
    return COMMAND_DONE;
}

static int
command_actors(lua_State *L, int env, const char *text)
{
    struct rille_counters c;
    (void)env, (void)text;
    rille_count(shell_of(L)->session, &c);
    printf("  %lld plans, %lld compiled and %lld found again; %lld runs\n", (long long)c.plans, (long long)c.compiles,
           (long long)c.cache_hits, (long long)c.runs);
    printf("  %lld acts; %lld messages, %lld of them between threads\n", (long long)c.acts, (long long)c.messages,
           (long long)c.thread_messages);
    printf("  %lld operators added; %lld stored now, with %lld values\n", (long long)c.nodes, (long long)c.live_nodes,
           (long long)c.live_values);
    printf("  :plan EXPR shows the actors that compute a value\n");
    return COMMAND_DONE;
}

static int
command_devices(lua_State *L, int env, const char *text)
{
    struct rille_session *s = shell_of(L)->session;
    struct rille_device_info d;
    (void)env, (void)text;
    printf("  %d of kind %s\n", rille_device_count(s, rille_default_kind(s)), rille_default_kind(s));
    for (int i = 0; rille_device_info(s, i, &d); i++)
        printf("  %s:%d  thread %d  %lld bytes live, %lld in its arena, %lld at most\n", d.kind, d.device, d.thread,
               (long long)d.live_bytes, (long long)d.arena_bytes, (long long)d.peak_bytes);
    return COMMAND_DONE;
}

static int
command_workers(lua_State *L, int env, const char *text)
{
    struct rille_worker_info w;
    (void)env, (void)text;
    for (int i = 0; rille_worker_info(shell_of(L)->session, i, &w); i++)
        printf("  %-3d %-8s pid %-8d %-16s heartbeat %.1f s ago  %s\n", w.rank, w.state, w.pid, w.host, w.heartbeat,
               w.devices);
    return COMMAND_DONE;
}

static int
command_mem(lua_State *L, int env, const char *text)
{
    struct rille_counters c;
    (void)env, (void)text;
    rille_count(shell_of(L)->session, &c);
    print_bytes("values, on all devices", c.live_bytes);
    print_bytes("arenas of plans", c.arena_bytes);
    print_bytes("held by garbage or handles", rille_external_bytes(shell_of(L)->session));
    print_bytes("Lua", (int64_t)lua_gc(L, LUA_GCCOUNT) * 1024 + lua_gc(L, LUA_GCCOUNTB));
    return COMMAND_DONE;
}

/* Calls rille.NAME on the values, or the method NAME of a graph, and prints what it gives. */
static int
look(lua_State *L, int env, const char *text, const char *name)
{
    int n = evaluate(L, env, text, name), first = lua_gettop(L) - n + 1;
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
    puts(luaL_tolstring(L, -1, NULL));
    return COMMAND_DONE;
}

static int
command_explain(lua_State *L, int env, const char *text)
{
    return look(L, env, text, "explain");
}

static int
command_plan(lua_State *L, int env, const char *text)
{
    return look(L, env, text, "plan");
}

/* :trace step run.json */
static int
command_trace(lua_State *L, int env, const char *text)
{
    const char *space = strrchr(text, ' ');
    if (!space || !space[1]) return luaL_error(L, ":trace STEP FILE: writes the times of a graph's last run");
    const char *step = lua_pushlstring(L, text, (size_t)(space - text));
    int first = lua_gettop(L) + 1;
    evaluate(L, env, step, "trace");
    lua_settop(L, first);
    if (!kind_test(L, -1, KIND_GRAPH)) return luaL_error(L, ":trace: a graph is wanted, found %s", what_is(L, -1));
    lua_getfield(L, -1, "trace");
    lua_insert(L, -2);
    lua_pushstring(L, space + 1);
    lua_call(L, 2, 0);
    printf("  %s; it opens in ui.perfetto.dev\n", space + 1);
    return COMMAND_DONE;
}

static const char *
environment(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : "not set";
}

static int
command_doctor(lua_State *L, int env, const char *text)
{
    static const char *const names[] = {"RILLE_SEED",  "RILLE_THREADS", "RILLE_BUS",
                                        "RILLE_CHECK", "RILLE_TRACE",   "TERM"};
    struct rille_session *s = shell_of(L)->session;
    (void)env, (void)text;
#if defined RILLE_READLINE
    const char *editor = "readline";
#elif defined RILLE_EDITLINE
    const char *editor = "libedit";
#else
    const char *editor = "none";
#endif
    printf("  rille %s, %s, line editor: %s\n", RILLE_VERSION, LUA_RELEASE, editor);
    printf("  cores: %ld; devices: %s:%d\n", sysconf(_SC_NPROCESSORS_ONLN), rille_default_kind(s),
           rille_device_count(s, rille_default_kind(s)));
    printf("  modules in Lua: %s\n", getenv("RILLE_LUA_DIR") ? getenv("RILLE_LUA_DIR") : "inside");
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) printf("  %s: %s\n", names[k], environment(names[k]));
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
    {"help", "[NAME]       this list, or the page of a name; also ?NAME; /WORD: pages that have it", command_help},
    {"tutorial", "[N]      ten short steps, on this machine; each time the next, or step N", command_tutorial},
    {"time", "EXPR         how long it takes; tensors are computed", command_time},
    {"whos", "             your variables", command_whos},
    {"actors", "           plans, runs, acts and messages so far", command_actors},
    {"devices", "          devices in use", command_devices},
    {"workers", "          worker processes", command_workers},
    {"mem", "              memory", command_mem},
    {"explain", "EXPR      signatures, candidates and boxing of a tensor or a step", command_explain},
    {"plan", "EXPR         its tasks, registers and memory", command_plan},
    {"trace", "STEP FILE   times of a graph's last run, as Chrome trace JSON", command_trace},
    {"doctor", "           what this program runs on", command_doctor},
    {"quit", "             leave; also Ctrl-D", command_quit},
    {NULL, NULL, NULL},
};

const char *
command_name(int i)
{
    return commands[i].name;
}

static int
command_help(lua_State *L, int env, const char *text)
{
    (void)env;
    if (*text) {
        if (!help_push(L, text)) return luaL_error(L, "nothing is called '%s'; rille.help() lists names", text);
        puts(lua_tostring(L, -1));
        return COMMAND_DONE;
    }
    for (const struct command *c = commands; c->name; c++) printf("  :%s %s\n", c->name, c->help);
    puts("  ?NAME is a page, rille.help() lists them. A trailing ; prints nothing, _ is the last value.\n"
         "  Ctrl-C stops what runs; Ctrl-D ends.");
    return COMMAND_DONE;
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
        if (!c->name[n]) return c->run(L, env, text);
    }
    if (n && matches == 1) return found->run(L, env, text); /* a beginning that is clear */
    lua_pushlstring(L, line, n);
    return luaL_error(L, "no command is called ':%s'; :help lists them", lua_tostring(L, -1));
}
