/* main.c - the program: reads options as lua(1) does, opens a session, then runs chunks, a script or the shell.
 *
 * Exit codes: 0 ok, 1 an error of the script, 2 usage, 3 a worker was lost, 130 interrupted, 128 + N ended by signal
 * N. Messages are printed to stderr. */
#include "shell/launch/ending.h"
#include "shell/launch/front.h"
#include "shell/launch/doctor.h"
#include "shell/launch/attached.h"
#include "shell/jupyter/jupyter.h"
#include "shell/run/journal.h"
#include "shell/repl/repl.h"
#include "shell/run/text_only.h"
#include "shell/repl/syntax.h"
#include "shell/repl/complete.h"
#include "shell/serve/lua_http.h"
#include "shell/serve/monitor.h"
#include "shell/bind/base/environment.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/names.h"
#include "shell/bind/base/shell.h"
#include "shell/bind/module/lua_rille.h"
#include "shell/bind/module/lua_stopping.h"
#include "shell/run/interrupt.h"
#include "shell/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EXIT_INTERRUPTED = 130, NCHUNK = 64 };

static const char help[] =
    "usage: rille [options] [script.lua [args]]\n"
    "       rille launch, coordinator, worker, keys: several processes; see rille launch --help\n"
    "       rille attach [NAME]    a prompt on a running program\n"
    "       rille status [NAME]    what the workers of a job do now\n"
    "       rille serve FOLDER     serve a language model over HTTP; see rille serve --help\n"
    "       rille verify FILE      check a certificate of a planned step\n"
    "Runs a script, or the shell if no script is given and stdin is a terminal. '-' reads a script\n"
    "from stdin.\n\n"
    "  -d, --devices LIST   devices of this process: cpu:4, cpu:2,cuda:0, cuda:all\n"
    "                       (default: cpu:8, or one cpu device per core if there are more)\n"
    "      --collectives HOW  transfers between GPUs: 'own': each reads the others' shards;\n"
    "                       'nccl': by NCCL, also between GPUs of workers\n"
    "  -e CHUNK             run Lua code; may be repeated\n"
    "  -E EXPR              print the value of an expression\n"
    "  -l MOD               require a module into its global\n"
    "  -i                   start the shell after the script\n"
    "      --color WHEN     auto, always or never\n"
    "      --calibrate      measure costs of communication and computation, print them and save\n"
    "                       them to ~/.config/rille/cost\n"
    "      --no-init        do not read ~/.config/rille/init.lua\n"
    "      --no-attach      accept no prompts of rille attach, and do not answer rille status\n"
    "      --metrics ADDRESS  serve metrics for monitors: PORT, HOST:PORT, or the path of a socket\n"
    "      --log FILE       append events to a file, one JSON object per line\n"
    "      --store PROGRAM  helper program that stores checkpoints at URLs (s3://...)\n"
    "      --jupyter FILE   run as a Jupyter kernel; FILE is the connection file\n"
    "      --jupyter-install  install the Jupyter kernel for this user\n"
    "      --doctor [--json]  report hardware, libraries and settings\n"
    "      --version        print the version\n"
    "      --help           print this\n\n"
    "Environment variables:\n"
    "  RILLE_DEVICES=LIST   devices, as -d\n"
    "  RILLE_SEED=N         seed of random values\n"
    "  RILLE_THREADS=N      number of device threads (default: one per core that the process may use)\n"
    "  RILLE_METRICS=ADDRESS, RILLE_LOG=FILE, RILLE_STORE=PROGRAM  as --metrics, --log, --store\n"
    "  RILLE_STORE_SECONDS=N  time without progress after which the helper program is ended (300)\n"
    "  RILLE_JOB=NAME       name of the job in the log (default: the script)\n"
    "  RILLE_TRACE=FILE     write the times of graphs\n"
    "  RILLE_COST=FILE      read the costs of communication, which --calibrate writes\n"
    "  RILLE_CHECK=LIST     ref, nan, trace: check kernels, values, compiled steps\n"
    "  RILLE_BUS=sim:SEED   deliver messages in an order chosen by SEED\n"
    "  RILLE_TRANSPORT=HOW  tcp or mpi: transport between hosts\n"
    "  RILLE_CACHE=FOLDER   compiled GPU kernels; empty: none are kept\n"
    "  RILLE_OPERATORS=PATH:PATH  libraries of operators to load\n"
    "  RILLE_LUA_DIR=FOLDER Rille's own modules, for developers\n\n"
    "In the shell: :help, and ?name for the help page of an operator or function.\n";

struct action { /* the options -e, -E and -l, in the order given */
    char kind;
    const char *text;
};

struct program {
    int argc;
    char **argv;
    int script; /* index of the script in argv; argc: no script */
    struct action action[NCHUNK];
    int naction;
    bool interactive, color, no_init, no_attach, calibrate, install, doctor, json, serve;
    const char *jupyter; /* path of the connection file (--jupyter), or NULL */
    const char *devices; /* argument of -d (list of devices), or NULL */
    const char *collectives;
    const char *metrics; /* address for metrics (--metrics), or NULL */
    const char *log;     /* path of the log file (--log), or NULL */
    const struct front *front;
    struct environment environment;
};

/* ---- usage ---- */

static int
main_usage(const char *fmt, const char *what)
{
    char text[1000];
    snprintf(text, sizeof text, fmt, what);
    tell_line(text);
    fputs("rille --help lists the options\n", stderr);
    return EXIT_USAGE;
}

enum {
    OPT_COLOR = 256,
    OPT_CALIBRATE,
    OPT_NO_INIT,
    OPT_NO_ATTACH,
    OPT_JUPYTER,
    OPT_JUPYTER_INSTALL,
    OPT_COLLECTIVES,
    OPT_METRICS,
    OPT_LOG,
    OPT_STORE,
    OPT_DOCTOR,
    OPT_JSON,
    OPT_VERSION,
    OPT_HELP
};

static const struct option long_options[] = {
    {"devices", required_argument, NULL, 'd'},
    {"collectives", required_argument, NULL, OPT_COLLECTIVES},
    {"color", required_argument, NULL, OPT_COLOR},
    {"calibrate", no_argument, NULL, OPT_CALIBRATE},
    {"no-init", no_argument, NULL, OPT_NO_INIT},
    {"no-attach", no_argument, NULL, OPT_NO_ATTACH},
    {"jupyter", required_argument, NULL, OPT_JUPYTER},
    {"jupyter-install", no_argument, NULL, OPT_JUPYTER_INSTALL},
    {"metrics", required_argument, NULL, OPT_METRICS},
    {"log", required_argument, NULL, OPT_LOG},
    {"store", required_argument, NULL, OPT_STORE},
    {"doctor", no_argument, NULL, OPT_DOCTOR},
    {"json", no_argument, NULL, OPT_JSON},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static int
set_color(struct program *p, const char *when)
{
    const char *term = getenv("TERM");
    bool able = isatty(1) && !getenv("NO_COLOR") && term && strcmp(term, "dumb");
    if (!strcmp(when, "auto"))
        p->color = able;
    else if (!strcmp(when, "always"))
        p->color = true;
    else if (!strcmp(when, "never"))
        p->color = false;
    else
        return main_usage("--color must be auto, always or never, found '%s'", when);
    return 0;
}

static int
unknown_option(const char *given)
{
    char text[FRONT_TEXT];
    struct nearest best = {0};
    for (const struct option *o = long_options; o->name; o++) nearest_add(&best, given + strspn(given, "-"), o->name);
    nearest_option_print(&best, given, text, sizeof text);
    return main_usage("%s", text);
}

/* Checks that the script exists, before a session is opened. If the script is missing and its name has no dot or
 * slash, the name is probably a misspelt command or an option without its dashes, so this is a usage error. */
static int
check_script(const struct program *p)
{
    static const char *const commands[] = {"launch", "coordinator", "worker", "keys", "attach",
                                           "status", "serve",       "verify", NULL};
    const char *name = p->script < p->argc ? p->argv[p->script] : "-", *dashes = "";
    char text[FRONT_TEXT];
    struct nearest best = {0}, option = {0};
    if (!strcmp(name, "-") || p->serve || p->naction || !access(name, F_OK)) return 0;
    int cause = errno;
    if (strpbrk(name, "./")) {
        snprintf(text, sizeof text, "cannot open %.200s: %s", name, strerror(cause));
        tell_line(text);
        return 1;
    }
    for (const char *const *c = commands; *c; c++) nearest_add(&best, name, *c);
    for (const struct option *o = long_options; o->name; o++) nearest_add(&option, name, o->name);
    if (option.name && (!best.name || option.changes < best.changes)) best = option, dashes = "--";
    snprintf(text, sizeof text, "cannot open %.100s: %s; %s%s%s", name, strerror(cause),
             best.name && !best.changes && !*dashes ? "the command must come before the options: rille "
             : best.name                            ? "the nearest command is rille "
                                                    : "expected a script or a command: ",
             dashes, best.name ? best.name : "launch, coordinator, worker, keys, attach, status, serve or verify");
    return main_usage("%s", text);
}

/* Reads the options. Returns 0 to continue, -1 if the program is done without error, else an exit code. */
static int
read_option(struct program *p, int c)
{
    switch (c) {
    case 'd': p->devices = optarg; return 0;
    case 'e':
    case 'E':
    case 'l':
        if (p->naction == NCHUNK) return main_usage("expected at most 64 options -e, -E and -l, found more", "");
        p->action[p->naction++] = (struct action){(char)c, optarg};
        return 0;
    case 'i': p->interactive = true; return 0;
    case OPT_COLLECTIVES: p->collectives = optarg; return 0;
    case OPT_METRICS: p->metrics = optarg; return 0;
    case OPT_LOG: p->log = optarg; return 0;
    case OPT_STORE: return setenv("RILLE_STORE", optarg, 1);
    case OPT_COLOR: return set_color(p, optarg);
    case OPT_CALIBRATE: p->calibrate = true; return 0;
    case OPT_NO_INIT: p->no_init = true; return 0;
    case OPT_NO_ATTACH: p->no_attach = true; return 0;
    case OPT_JUPYTER: p->jupyter = optarg; return 0;
    case OPT_JUPYTER_INSTALL: p->install = true; return 0;
    case OPT_DOCTOR: p->doctor = true; return 0;
    case OPT_JSON: p->json = true; return 0;
    case OPT_VERSION: printf("rille %s, %s\n", RILLE_VERSION, LUA_RELEASE); return -1;
    case OPT_HELP: fputs(help, stdout); return -1;
    }
    char name[] = {'-', (char)optopt, 0};
    bool is_long = optopt == 0 || optopt >= OPT_COLOR;
    const char *given = is_long ? p->argv[optind - 1] : name;
    if (c == ':') return main_usage("%s needs an argument", given);
    return is_long && optopt ? main_usage("%s accepts no argument", given) : unknown_option(given);
}

/* Removes -d LIST and --devices LIST from the arguments of rille serve, because the session needs them. */
static int
take_devices(struct program *p)
{
    int to = p->script;
    for (int from = to; from < p->argc; from++) {
        const char *arg = p->argv[from];
        bool separate = !strcmp(arg, "-d") || !strcmp(arg, "--devices");
        if (separate && from + 1 == p->argc) return main_usage("%s needs an argument", arg);
        if (separate)
            p->devices = p->argv[++from];
        else if (!strncmp(arg, "--devices=", 10))
            p->devices = arg + 10;
        else
            p->argv[to++] = p->argv[from];
    }
    p->argc = to;
    return 0;
}

static int
read_options(struct program *p)
{
    int c;
    opterr = 0;
    set_color(p, "auto");
    while ((c = getopt_long(p->argc, p->argv, "+:d:e:E:l:i", long_options, NULL)) != -1) {
        int code = read_option(p, c);
        if (code) return code;
    }
    p->script = optind;
    p->serve = p->script < p->argc && !strcmp(p->argv[p->script], "serve") && !p->naction;
    return p->serve ? take_devices(p) : 0;
}

/* ---- running ---- */

static bool was_lost; /* true: the last printed error reported the loss of a worker */

/* Calls run_quiet(), and prints the error, if any, or the signal that ended the code. */
static int
run_protected(lua_State *L, int nargs, int nresults)
{
    int code = run_quiet(L, nargs, nresults);
    if (code) {
        fflush(stdout);
        if (interrupt_quit())
            stopping_tell(interrupt_quit());
        else
            tell_line(lua_tostring(L, -1));
        was_lost = lost_is(L, -1);
        lua_pop(L, 1);
    }
    return code;
}

static int
exit_code(int code)
{
    if (code != LUA_OK && interrupt_quit()) return 128 + interrupt_quit();
    return code == LUA_OK ? 0 : interrupt_count() ? EXIT_INTERRUPTED : was_lost ? EXIT_LOST : 1;
}

static int
load_failed(lua_State *L)
{
    tell_line(lua_tostring(L, -1));
    lua_pop(L, 1);
    return 1;
}

/* Loads a file (NULL: stdin) as a function. If an error does not name the file, adds its name, because Lua does
 * not name the file of a binary chunk. */
static int
load_script(lua_State *L, const char *name)
{
    int code = luaL_loadfilex(L, name, "t");
    if (!code || !name) return code;
    if (strstr(lua_tostring(L, -1), ":1: unexpected symbol near '<\\127>'")) /* an ELF program begins with byte 127 */
        lua_pushfstring(L, "%s is a program, expected a script; write only the script and its arguments", name);
    else if (!strstr(lua_tostring(L, -1), name))
        lua_pushfstring(L, "%s: %s", name, lua_tostring(L, -1));
    return code;
}

static int
text_failed(lua_State *L, const char *text)
{
    syntax_hint(L, text);
    return load_failed(L);
}

static int
run_text(lua_State *L, const char *text, const char *name)
{
    if (luaL_loadbufferx(L, text, strlen(text), name, "t")) return text_failed(L, text);
    return exit_code(run_protected(L, 0, 0));
}

/* Pushes a global by raw access, because errors raised by a metatable that the user gave _G would not be caught
 * here. */
static void
push_global(lua_State *L, const char *name)
{
    lua_pushglobaltable(L);
    lua_pushstring(L, name);
    lua_rawget(L, -2);
    lua_remove(L, -2);
}

/* Runs option -E: evaluates `return EXPR` and prints all its values with print. */
static int
run_expression(lua_State *L, const char *text)
{
    push_global(L, "print");
    const char *chunk = lua_pushfstring(L, "return %s", text);
    int code = luaL_loadbufferx(L, chunk, strlen(chunk), "=(command line)", "t");
    lua_remove(L, -2);
    if (code) return text_failed(L, text);
    int base = lua_gettop(L) - 1;
    if ((code = run_protected(L, 0, LUA_MULTRET))) return exit_code(code);
    return exit_code(run_protected(L, lua_gettop(L) - base, 0));
}

/* Runs option -l mod or -l name=mod: requires a module and stores it in a global. */
static int
run_module(lua_State *L, const char *text)
{
    const char *equals = strchr(text, '=');
    push_global(L, "require");
    lua_pushstring(L, equals ? equals + 1 : text);
    int code = run_protected(L, 1, 1);
    if (code) return exit_code(code);
    if (equals)
        lua_pushlstring(L, text, (size_t)(equals - text));
    else
        lua_pushstring(L, text);
    lua_insert(L, -2);
    lua_pushglobaltable(L);
    lua_insert(L, -3);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    return 0;
}

static int
run_actions(lua_State *L, const struct program *p)
{
    int code = 0;
    for (int k = 0; k < p->naction && !code; k++) {
        const struct action *a = &p->action[k];
        if (a->kind == 'e')
            code = run_text(L, a->text, "=(command line)");
        else if (a->kind == 'E')
            code = run_expression(L, a->text);
        else
            code = run_module(L, a->text);
    }
    return code;
}

/* Runs a script (NULL: stdin) with the program's arguments that follow its name. */
static int
run_script(lua_State *L, const struct program *p, const char *name)
{
    int nargs = name ? p->argc - p->script - 1 : 0;
    if (load_script(L, name && strcmp(name, "-") ? name : NULL)) return load_failed(L);
    luaL_checkstack(L, nargs + 3, "too many arguments");
    for (int k = 0; k < nargs; k++) lua_pushstring(L, p->argv[p->script + 1 + k]);
    return exit_code(run_protected(L, nargs, 0));
}

/* Runs rille serve FOLDER: calls the function that lua/serve.lua returns, with the arguments after the command. */
static int
run_serve(lua_State *L, const struct program *p)
{
    push_global(L, "require");
    lua_pushliteral(L, "rille.serve");
    int nargs = p->argc - p->script - 1, code = run_protected(L, 1, 1);
    if (code) return exit_code(code);
    luaL_checkstack(L, nargs + 3, "too many arguments");
    for (int k = 0; k < nargs; k++) lua_pushstring(L, p->argv[p->script + 1 + k]);
    return exit_code(run_protected(L, nargs, 0));
}

/* Sets the global arg: arg[0] is the script, arg[1]... its arguments; arguments before the script have negative
 * indices. */
static void
push_arg(lua_State *L, const struct program *p)
{
    int script = p->script < p->argc ? p->script : 0;
    lua_createtable(L, p->argc - script, script + 1);
    for (int k = 0; k < p->argc; k++) {
        lua_pushstring(L, p->argv[k]);
        lua_rawseti(L, -2, k - script);
    }
    lua_setglobal(L, "arg");
}

/* Runs $XDG_CONFIG_HOME/rille/init.lua if it exists. */
static int
run_init(lua_State *L)
{
    char path[PATH_MAX];
    if (!environment_path("XDG_CONFIG_HOME", ".config", "init.lua", path)) return 0;
    if (access(path, R_OK)) return 0;
    if (load_script(L, path)) return load_failed(L);
    return exit_code(run_protected(L, 0, 0));
}

/* Returns the name of the job: the script's name; "chunk" for the option -e or -l; else "prompt". */
static const char *
job_title(const struct program *p)
{
    return p->script < p->argc ? p->argv[p->script] : p->naction ? "chunk" : "prompt";
}

static int
run_all(lua_State *L, const struct program *p)
{
    bool script = p->script < p->argc;
    if (p->front->attached) return attach_run(L, &p->front->attach);
    if (p->doctor) return doctor_print(L, p->json) ? 1 : 0;
    push_arg(L, p);
    /* a notebook accepts no attached prompts, because the main thread serves the notebook's messages */
    if (!p->jupyter && !p->no_attach) attached_open(L, job_title(p));
    repl_prepare(L); /* globals that exist now do not count as the user's */
    int code = p->no_init ? 0 : run_init(L);
    if (!code) code = run_actions(L, p);
    if (!code && script) code = p->serve ? run_serve(L, p) : run_script(L, p, p->argv[p->script]);
    if (!code && p->jupyter) return jupyter_run(L, p->jupyter);
    bool alone = !script && p->naction == 0;
    if (!p->interactive && (!alone || code)) return code;
    if (alone && !p->interactive && !isatty(0)) return run_script(L, p, NULL);
    return repl_run(L);
}

/* ---- opening ---- */

/* Prints why the session could not be opened. Names RILLE_DEVICES if the list of devices came from there. */
static int
open_failed(const struct program *p)
{
    char text[1000];
    bool named = !p->devices && p->environment.options.devices && !strcmp(rille_error_kind(), "placement does not fit");
    snprintf(text, sizeof text, "%s%s", named ? "RILLE_DEVICES: " : "", rille_error());
    tell_line(text);
    return rille_was_lost() ? EXIT_LOST : EXIT_USAGE;
}

/* Runs --calibrate: measures the cost parameters, prints the old and new values, and stores the new ones. */
static int
calibrate(struct rille_session *s, const char *path)
{
    struct rille_cost old, now;
    rille_cost(s, &old);
    if (rille_calibrate(s, &now)) return tell_line(rille_error()), 1;
    printf("%-20s %12s %12s\n", "cost", "was", "is");
    printf("%-20s %12.4g %12.4g\n", "ns per hop", old.hop_ns, now.hop_ns);
    printf("%-20s %12.4g %12.4g\n", "ns per message", old.alpha_ns, now.alpha_ns);
    printf("%-20s %12.4g %12.4g\n", "ns per byte received", old.beta_ns_per_byte, now.beta_ns_per_byte);
    printf("%-20s %12.4g %12.4g\n", "ns per byte reduced", old.gamma_ns_per_byte, now.gamma_ns_per_byte);
    printf("%-20s %12.4g %12.4g\n", "ns per byte copied", old.copy_ns_per_byte, now.copy_ns_per_byte);
    printf("%-20s %12.4g %12.4g\n", "operations per ns", old.flops_per_ns, now.flops_per_ns);
    printf("%-20s %12.4g %12.4g\n", "bytes computed per ns", old.bytes_per_ns, now.bytes_per_ns);
    if (!path[0]) return tell_line("the costs cannot be saved: set HOME or RILLE_COST=FILE"), 1;
    make_folders(path);
    if (rille_cost_write(path, &now)) return tell_line(rille_error()), 1;
    printf("saved to %s\n", path);
    return 0;
}

/* Waits, before the program ends, for background saves and for runs that are not complete. Errors of both set the
 * exit code of the program. */
static int
finish_files(lua_State *L)
{
    shell_finish(L);
    return 0;
}

/* Opens the log file, whose path local workers inherit by the environment. Returns an exit code. */
static int
open_log(struct program *p)
{
    const char *path = p->log ? p->log : getenv("RILLE_LOG");
    if (!path || !*path) return 0;
    if (journal_open(p->log ? "--log" : "RILLE_LOG", path)) return EXIT_USAGE;
    const char *job = getenv("RILLE_JOB");
    if (!job || !*job) job = job_title(p);
    journal_job(job);
    return setenv("RILLE_LOG", path, 1) || setenv("RILLE_JOB", job, 1) ? EXIT_USAGE : 0;
}

/* Runs the program. If --metrics is given, serves metrics until the program ends. */
static int
run_monitored(lua_State *L, const struct program *p)
{
    const char *address = p->metrics ? p->metrics : getenv("RILLE_METRICS");
    const char *option = p->metrics ? "--metrics" : "RILLE_METRICS";
    if (address && *address && monitor_open(shell_of(L)->session, option, address, job_title(p))) return EXIT_USAGE;
    ending_hook(L, p->front->on && !p->front->leaves);
    return run_all(L, p);
}

static int
run_program(const struct program *p)
{
    lua_State *L = luaL_newstate();
    if (!L) {
        fputs("rille: out of memory\n", stderr);
        ending_tell(EXIT_FAILURE, NULL);
        return EXIT_FAILURE;
    }
    luaL_openlibs(L);
    lua_warning(L, "@on", 0); /* warnings are on; a script can turn them off with warn("@off") */
    text_only_open(L);
    lua_gc(L, LUA_GCINC, 120, 800,
           0); /* collects eagerly: unreachable handles keep device buffers, which Lua does not count */
    int code = shell_open(L, &p->environment);
    if (!code) {
        struct shell *sh = shell_of(L);
        http_functions(L);
        monitor_functions(L);
        lua_setglobal(L, "rille");
        sh->color = p->color;
        sh->doctor = doctor_print;
        interrupt_open(L);
        complete_open(L);
        code = p->calibrate ? calibrate(sh->session, p->environment.cost) : run_monitored(L, p);
        lua_pushcfunction(L, finish_files);
        int last = sh->session ? exit_code(run_protected(L, 0, 0)) : 0;
        code = code ? code : last;
        fflush(stdout);
        ending_tell(code, NULL);
        rille_end_with(sh->session, code);
        monitor_close();
        if (interrupt_quit() && p->front->leaves) _exit(128 + interrupt_quit());
    } else {
        code = open_failed(p);
        ending_tell(code, NULL);
    }
    lua_close(L);
    return code;
}

/* Runs rille verify FILE: checks the certificate of a plan. */
static int
verify_program_file(int argc, char **argv)
{
    char *said;
    if (argc != 3)
        return main_usage("verify: expected the name of one file, a certificate that step:certify wrote%s", "");
    if (rille_certificate_check(argv[2], &said)) {
        tell_line(rille_error());
        return 1;
    }
    puts(said);
    free(said);
    return 0;
}

/* Opens /dev/null for each closed standard stream, because the next file opened would otherwise become that stream.
 * Writing to a stdout opened here fails. */
static void
keep_streams(void)
{
    for (int k = 0; k <= 2; k++)
        if (fcntl(k, F_GETFD) < 0 && open("/dev/null", k == 1 ? O_RDONLY : O_RDWR) != k) abort();
}

/* Returns the exit code: `code`, or, after a report, an error code if output could not be written. */
static int
end_output(int code)
{
    if (!fflush(stdout) && !ferror(stdout)) return code;
    /* a write that fails again says why, because errno can be that of a later call */
    if (putchar('\n') != EOF) fflush(stdout);
    char text[200];
    snprintf(text, sizeof text, "the output could not be written: %s", strerror(errno));
    tell_line(text);
    return code ? code : 1;
}

static void
warn_of_devices(const char *list)
{
    for (; list && *list; list += strcspn(list, ","), list += *list == ',')
        if (!strncmp(list, "late", strcspn(list, ":,"))) tell_line("warning: " RENAMED_KIND);
}

/* Runs the program as a controller or alone. Returns its exit code. */
static int
begin_program(int argc, char **argv, struct front *front)
{
    struct program p = {.argc = front->attached ? 1 : argc, .argv = argv, .front = front};
    /* the line editor needs the locale's character set; numbers keep the format of the C locale */
    setlocale(LC_CTYPE, "");
    if (argc > 1 && !strcmp(argv[1], "verify")) return verify_program_file(argc, argv);
    int code = read_options(&p);
    if (!code && !front->attached) code = check_script(&p);
    if (code) return code < 0 ? 0 : code;
    if (p.install) return jupyter_install();
    if (environment_read(&p.environment)) {
        tell_line(p.environment.error);
        return EXIT_USAGE;
    }
    if (p.devices) p.environment.options.devices = p.devices;
    /* rille attach runs its lines in the controller, and uses the local session only for the editor */
    if (front->attached) p.environment.options.devices = "cpu:1";
    if (!front->attached) p.environment.options.collectives = p.collectives;
    if (p.calibrate && p.environment.cost[0] && access(p.environment.cost, R_OK)) p.environment.options.cost = NULL;
    warn_of_devices(p.environment.options.devices);
    if ((code = open_log(&p))) return code;
    if (front_options(front, p.environment.options.devices, &p.environment.options)) return open_failed(&p);
    bool job = p.script < p.argc || p.naction;
    if (!front->attached) ending_open(job_title(&p), front->on && job, (front->on || journal_is_open()) && job);
    return run_program(&p);
}

/* Makes idle OpenMP threads of oneDNN sleep, unless the environment sets how they wait. Spinning threads would take
 * cores from other programs and from Rille's other threads. The OpenMP library reads the setting before main(), so
 * the program executes itself once with the setting. */
static void
let_threads_sleep(char **argv)
{
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY") || setenv("OMP_WAIT_POLICY", "passive", 1)) return;
    execv("/proc/self/exe", argv);
}

int
main(int argc, char **argv)
{
    let_threads_sleep(argv);
    struct front front;
    signal(SIGXFSZ, SIG_IGN); /* makes exceeding a file size limit a write error instead of a signal */
    keep_streams();
    interrupt_catch();
    int code = front_read(&argc, argv, long_options, &front);
    if (code < 0) code = begin_program(argc, argv, &front);
    front_close(&front);
    return end_output(code);
}
