/* front_workers.c - reads options with numbers: workers of a job, and losses that a job permits. */
#include "shell/launch/front.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
