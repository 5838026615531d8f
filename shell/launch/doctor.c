/* doctor.c - collects facts about the machine, the session and the program, as a list of {name, value};
 * lua/show/doctor.lua prints the list for :doctor and rille --doctor [--json]. */
#include "shell/launch/doctor.h"
#include "shell/bind/base/environment.h"
#include "shell/bind/base/fold.h"
#include "shell/launch/ranked.h"
#include "runtime/base/system.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* ---- a list ---- */

/* Appends {name, the value at the top of the stack} to the list at index `list`. */
static void
fact(lua_State *L, int list, const char *name)
{
    lua_createtable(L, 2, 0);
    lua_insert(L, -2);
    lua_rawseti(L, -2, 2);
    lua_pushstring(L, name);
    lua_rawseti(L, -2, 1);
    lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
}

static void
text_fact(lua_State *L, int list, const char *name, const char *value)
{
    lua_pushstring(L, value ? value : "none");
    fact(L, list, name);
}

/* ---- the machine ---- */

/* Finds the first value of a key in a file whose lines are "key : value". */
static bool
look_up(const char *path, const char *key, char *out, size_t size)
{
    FILE *f = fopen(path, "r");
    char line[4096];
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) || !colon) continue;
        found = true;
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = 0;
        snprintf(out, size, "%s", colon);
    }
    if (f) fclose(f);
    return found;
}

/* Adds a size from /proc/meminfo, converted from kB to bytes. */
static void
memory_fact(lua_State *L, int list, const char *name, const char *key)
{
    char text[64];
    bool known = look_up("/proc/meminfo", key, text, sizeof text);
    if (known) snprintf(text, sizeof text, "%.1f GiB", strtod(text, NULL) / (1 << 20));
    text_fact(L, list, name, known ? text : "unknown");
}

static void
limit_facts(lua_State *L, int list)
{
    struct rille_limits l;
    char text[400];
    if (rille_limits(&l)) return;
    snprintf(text, sizeof text, "%d (%s)", l.cores, *l.cores_from ? l.cores_from : "the machine's cores");
    text_fact(L, list, "core limit", text);
    snprintf(text, sizeof text, "%.1f GiB (%s)", (double)l.memory / (1 << 30),
             *l.memory_from ? l.memory_from : "the machine's memory");
    text_fact(L, list, "memory limit", text);
}

static void
machine_facts(lua_State *L, int list)
{
    static const char *const sets[] = {"avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16"};
    char text[4096] = "", flags[4096] = " ";
    int own = system_cores();
    struct utsname u;
    if (!uname(&u)) {
        lua_pushfstring(L, "%s %s, %s", u.sysname, u.release, u.machine);
        fact(L, list, "system");
        text_fact(L, list, "host", u.nodename);
    }
    text_fact(L, list, "processor", look_up("/proc/cpuinfo", "model name", text, sizeof text) ? text : "unknown");
    look_up("/proc/cpuinfo", "flags", flags + 1, sizeof flags - 2);
    strcat(flags, " ");
    text[0] = 0;
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
        char word[32];
        snprintf(word, sizeof word, " %s ", sets[k]);
        if (strstr(flags, word)) strcat(strcat(text, *text ? " " : ""), sets[k]);
    }
    text_fact(L, list, "instructions", *text ? text : "none that kernels use");
    lua_pushinteger(L, sysconf(_SC_NPROCESSORS_ONLN));
    fact(L, list, "cores");
    lua_pushinteger(L, own > 0 ? own : sysconf(_SC_NPROCESSORS_ONLN));
    fact(L, list, "cores allowed");
    memory_fact(L, list, "memory", "MemTotal");
    memory_fact(L, list, "memory free", "MemAvailable");
    limit_facts(L, list);
}

/* ---- the session ---- */

static void
device_facts(lua_State *L, int list)
{
    static const char *const kinds[] = {"cpu", "cuda", "meta", "async"};
    struct rille_session *s = shell_of(L)->session;
    struct rille_gpu_info gpu;
    luaL_Buffer b;
    char text[320];
    luaL_buffinit(L, &b);
    for (size_t k = 0, n = 0; k < sizeof kinds / sizeof *kinds; k++) {
        int count = rille_device_count(s, kinds[k]);
        if (count <= 0) continue;
        if (count < INT_MAX) snprintf(text, sizeof text, "%s%s:%d", n++ ? ", " : "", kinds[k], count);
        if (count < INT_MAX) luaL_addstring(&b, text);
    }
    luaL_pushresult(&b);
    fact(L, list, "devices");
    for (int d = 0; d < rille_device_count(s, "cuda"); d++) {
        if (rille_gpu_info(s, d, &gpu)) break;
        snprintf(text, sizeof text, "%s, %lld MiB, %d.%d", gpu.name, (long long)(gpu.memory >> 20), gpu.major,
                 gpu.minor);
        lua_pushfstring(L, "cuda:%d", d);
        text_fact(L, list, lua_tostring(L, -1), text);
        lua_pop(L, 1);
        if (d == 0) text_fact(L, list, "kernels of GPUs", gpu.kernels);
    }
}

static bool
find_program(const char *name, char path[PATH_MAX])
{
    const char *at = getenv("PATH");
    for (size_t n; at; at = at[n] ? at + n + 1 : NULL) {
        n = strcspn(at, ":");
        if (snprintf(path, PATH_MAX, "%.*s/%s", (int)n, at, name) < PATH_MAX && !access(path, X_OK)) return true;
    }
    return false;
}

static void
mpi_fact(lua_State *L, int list, const struct ranked *r)
{
    const char *library, *by_tcp = ", not used: no launcher of MPI started this process";
    if (rille_mpi_library(&library))
        lua_pushstring(L, rille_error());
    else
        lua_pushfstring(L, "%s%s", library, !r->mpi ? by_tcp : "");
    fact(L, list, "MPI between hosts");
}

enum { WORKERS_SHOWN = 64 };

static void
worker_fact(lua_State *L, int list, const struct rille_worker_info *w)
{
    char name[24], text[512];
    snprintf(name, sizeof name, "worker %d", w->rank);
    snprintf(text, sizeof text, "%s, pid %d, %s, %d cores, %.1f GiB, --link %g, --orphan %g, %s", w->host, w->pid,
             w->devices, w->cores, (double)w->bytes / (1 << 30), w->own_link, w->own_orphan, w->state);
    text_fact(L, list, name, text);
}

static void
launch_facts(lua_State *L, int list)
{
    struct ranked r;
    struct rille_worker_info w;
    char why[FRONT_TEXT], ssh[PATH_MAX];
    int n = 0;
    if (ranked_read(&r, why))
        lua_pushfstring(L, "refused: %s", why);
    else if (r.launcher)
        lua_pushfstring(L, "%s, rank %d of %d, %s %s", r.launcher, r.rank, r.size,
                        r.store ? "store at" : "coordinator at", r.address);
    else
        lua_pushliteral(L, "none: no launcher's variables are set");
    fact(L, list, "launcher");
    mpi_fact(L, list, &r);
    text_fact(L, list, "ssh", find_program("ssh", ssh) ? ssh : "missing: rille launch -H needs it");
    while (rille_in_cluster(shell_of(L)->session) && rille_worker_info(shell_of(L)->session, n, &w)) n++;
    lua_pushinteger(L, n);
    fact(L, list, "workers");
    if (n && rille_worker_info(shell_of(L)->session, 0, &w)) {
        lua_pushfstring(L, "--silence %f, --hang %f, --link %f", w.silence, w.hang, w.link);
        fact(L, list, "time limits, s");
    }
    for (int i = 0; i < n && i < WORKERS_SHOWN && rille_worker_info(shell_of(L)->session, i, &w); i++)
        worker_fact(L, list, &w);
}

/* ---- the program ---- */

static void
file_fact(lua_State *L, int list, const char *name, const char *xdg, const char *under_home, const char *file)
{
    char path[PATH_MAX];
    bool known = environment_path(xdg, under_home, file, path);
    lua_pushfstring(L, "%s%s", known ? path : "none: HOME is not set", known && access(path, R_OK) ? " (missing)" : "");
    fact(L, list, name);
}

static void
program_facts(lua_State *L, int list)
{
    char path[PATH_MAX] = "";
    text_fact(L, list, "rille", RILLE_VERSION);
    text_fact(L, list, "program", system_program(path, sizeof path) ? path : "unknown");
    text_fact(L, list, "lua", LUA_RELEASE);
#if defined RILLE_READLINE
    text_fact(L, list, "line editor", "readline");
#elif defined RILLE_EDITLINE
    text_fact(L, list, "line editor", "libedit");
#else
    text_fact(L, list, "line editor", "none");
#endif
    text_fact(L, list, "modules in Lua", getenv("RILLE_LUA_DIR") ? getenv("RILLE_LUA_DIR") : "inside");
    file_fact(L, list, "init file", "XDG_CONFIG_HOME", ".config", "init.lua");
    file_fact(L, list, "history", "XDG_STATE_HOME", ".local/state", "history");
    lua_pushfstring(L, "%s, %d columns, %s", getenv("TERM") ? getenv("TERM") : "TERM is not set", print_columns(),
                    shell_of(L)->color ? "colours" : "no colours");
    fact(L, list, "terminal");
}

static void
environment_facts(lua_State *L, int list)
{
    static const char *const names[] = {"RILLE_DEVICES",   "RILLE_SEED",      "RILLE_THREADS",   "RILLE_BUS",
                                        "RILLE_CHECK",     "RILLE_TRANSPORT", "RILLE_TRACE",     "RILLE_COST",
                                        "RILLE_OPERATORS", "NO_COLOR",        "OMP_NUM_THREADS", "OMP_WAIT_POLICY",
                                        "GOMP_SPINCOUNT"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (getenv(names[k])) text_fact(L, list, names[k], getenv(names[k]));
}

int
doctor_print(lua_State *L, bool json)
{
    lua_getglobal(L, "require");
    lua_pushliteral(L, "rille.show.doctor");
    lua_call(L, 1, 1);
    lua_newtable(L);
    int list = lua_gettop(L);
    program_facts(L, list);
    machine_facts(L, list);
    device_facts(L, list);
    launch_facts(L, list);
    environment_facts(L, list);
    lua_pushboolean(L, json);
    lua_call(L, 2, 1);
    if (!json) fold_push(L, lua_tostring(L, -1));
    fputs(lua_tostring(L, -1), stdout);
    lua_pop(L, 1);
    return fflush(stdout);
}
