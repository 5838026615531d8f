/* front_workers.c - reads the options that say how many workers a job has, on which hosts, and how many losses
 * it permits. */
#include "shell/launch/front_workers.h"
#include "shell/launch/front.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>

int
front_integer(const char *text, int least, int most, int *out)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (!*text || *end || n < least || n > most) return -1;
    *out = (int)n;
    return 0;
}

int
front_workers(const char *option, const char *text, int most, struct rille_workers *w)
{
    char low[16], what[FRONT_TEXT];
    const char *colon = strchr(text, ':');
    snprintf(low, sizeof low, "%.*s", colon ? (int)(colon - text) : 0, text);
    bool good = !front_integer(colon ? colon + 1 : text, 1, most, &w->workers);
    if (colon) good = good && !front_integer(low, 1, w->workers, &w->least);
    if (good) return 0;
    snprintf(what, sizeof what, "%s must be a number of workers from 1 to %d, or MIN:MAX, found '%.100s'", option, most,
             text);
    return front_usage("%s", what);
}

int
front_restarts(const char *text, struct rille_workers *o)
{
    enum { MOST = 63 };
    char count[16], *end;
    const char *colon = text ? strchr(text, ':') : NULL;
    if (!text) return 0;
    snprintf(count, sizeof count, "%.*s", colon ? (int)(colon - text) : 0, text);
    o->restart_seconds = colon ? strtod(colon + 1, &end) : 0;
    if (colon && !front_integer(count, 0, MOST, &o->restarts) && colon[1] && !*end && o->restart_seconds > 0 &&
        o->restart_seconds <= 1e9)
        return 0;
    return front_usage("--restarts must be N:SECONDS, a number of losses from 0 to 63 and a time, found '%s'", text);
}

/* Returns the contents of a file, which the caller frees; NULL after printing the error. */
static char *
read_hostfile(const char *path, size_t *n)
{
    enum { MOST = 1 << 20 };
    FILE *file = fopen(path, "r");
    char *text = file ? malloc(MOST) : NULL;
    *n = text ? fread(text, 1, MOST, file) : 0;
    bool bad = !text || ferror(file);
    if (file) fclose(file);
    if (!bad && *n < MOST) return text;
    fprintf(stderr, "rille: launch: %s: %s\n", path, bad ? strerror(errno) : "the list of hosts is too long");
    free(text);
    return NULL;
}

int
hosts_read(const char *list, const char *path, struct hosts *out)
{
    struct hosts_error e;
    size_t n = list ? strlen(list) : 0;
    char *text = list ? strdup(list) : read_hostfile(path, &n);
    if (!text) return -1;
    int code = hosts_parse(text, n, out, &e);
    if (code && list)
        fprintf(stderr, "rille: launch: -H, character %d: %s\n", e.column, e.text);
    else if (code)
        fprintf(stderr, "rille: launch: %s:%d:%d: %s\n", path, e.line, e.column, e.text);
    free(text);
    return code;
}
