/* environment.c - reads the session's options from environment variables, for the program rille and for the module
 * rille.so, which plain Lua loads. */
#include "shell/bind/base/environment.h"
#include "shell/bind/base/shell.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *
environment_value(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

static int environment_malformed(struct environment *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int
environment_malformed(struct environment *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->error, sizeof e->error, fmt, ap);
    va_end(ap);
    return -1;
}

static int
read_seed(struct environment *e)
{
    const char *text = environment_value("RILLE_SEED");
    char *end;
    if (!text) return 0;
    errno = 0;
    e->options.seed = strtoull(text, &end, 10);
    if (*end || errno || *text == '-')
        return environment_malformed(e, "RILLE_SEED must be an integer from 0 to 2^64 - 1, found '%s'", text);
    return 0;
}

static int
read_checks(struct environment *e)
{
    const char *text = environment_value("RILLE_CHECK");
    while (text && *text) {
        size_t n = strcspn(text, ",");
        if (n == 3 && !strncmp(text, "ref", n))
            e->options.check_ref = true;
        else if (n == 3 && !strncmp(text, "nan", n))
            e->options.check_nan = true;
        else if (n == 5 && !strncmp(text, "trace", n))
            e->check_trace = true;
        else
            return environment_malformed(e, "RILLE_CHECK must be a list of ref, nan and trace, found '%s'", text);
        text += n + (text[n] == ',');
    }
    return 0;
}

bool
environment_path(const char *xdg, const char *under_home, const char *name, char path[PATH_MAX])
{
    const char *base = environment_value(xdg), *home = environment_value("HOME");
    int n = -1;
    if (base)
        n = snprintf(path, PATH_MAX, "%s/rille/%s", base, name);
    else if (home)
        n = snprintf(path, PATH_MAX, "%s/%s/rille/%s", home, under_home, name);
    return n >= 0 && n < PATH_MAX;
}

/* Finds the file of measured transfer costs: RILLE_COST, else the file in the settings folder if that file exists. */
static void
find_costs(struct environment *e)
{
    const char *named = environment_value("RILLE_COST");
    if (named)
        snprintf(e->cost, sizeof e->cost, "%s", named);
    else if (!environment_path("XDG_CONFIG_HOME", ".config", "cost", e->cost))
        e->cost[0] = 0;
    if (named || (e->cost[0] && !access(e->cost, R_OK))) e->options.cost = e->cost;
}

static int
check_lua_folder(struct environment *e)
{
    char path[PATH_MAX];
    const char *folder = environment_value("RILLE_LUA_DIR");
    if (!folder) return 0;
    snprintf(path, sizeof path, "%s/nn.lua", folder);
    if (!access(path, R_OK)) return 0;
    return environment_malformed(e, "RILLE_LUA_DIR must be the folder lua of Rille's sources, found '%s'", folder);
}

int
environment_read(struct environment *e)
{
    memset(e, 0, sizeof *e);
    e->options.size = sizeof e->options;
    if (read_seed(e) || read_checks(e) || check_lua_folder(e)) return -1;
    e->options.devices = environment_value("RILLE_DEVICES");
    e->trace = environment_value("RILLE_TRACE");
    e->transport = environment_value("RILLE_TRANSPORT");
    if (e->transport && strcmp(e->transport, "tcp") && strcmp(e->transport, "mpi"))
        return environment_malformed(e, "RILLE_TRANSPORT must be tcp or mpi, found '%s'", e->transport);
    find_costs(e);
    return 0;
}
