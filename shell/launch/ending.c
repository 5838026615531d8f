/* ending.c - says when and why a job ended. */
#include "shell/bind/module/lua_stopping.h"
#include "shell/launch/ending.h"

#include "shell/bind/base/clock.h"
#include "shell/launch/front.h"
#include "shell/run/journal.h"

#include <jansson.h>
#include <lauxlib.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SHORT = 600 }; /* s: a job that succeeds within this time prints no line on stderr */

static struct {
    pid_t pid; /* id of the process that reports the end; 0: no job was begun */
    bool tells;
    double start; /* clock_seconds() when the job began */
    char job[128];
} ending;

/* Implements os.exit([code[, close]]): reports the end of the job, then calls Lua's own function. */
static int
exit_told(lua_State *L)
{
    int code = lua_isboolean(L, 1) ? !lua_toboolean(L, 1) : (int)luaL_optinteger(L, 1, EXIT_SUCCESS);
    ending_tell(code, "os.exit");
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, 0);
    return 0;
}

void
ending_begin(void)
{
    ending.start = clock_seconds();
}

void
ending_open(lua_State *L, const char *job, bool tells)
{
    ending.pid = getpid();
    ending.tells = tells;
    ending_begin();
    const char *slash = strrchr(job, '/');
    snprintf(ending.job, sizeof ending.job, "%s", slash ? slash + 1 : job);
    journal_event("begin", job);
    lua_getglobal(L, "os");
    lua_getfield(L, -1, "exit");
    lua_pushcclosure(L, exit_told, 1);
    lua_setfield(L, -2, "exit");
    lua_pop(L, 1);
}

static void
print_reason(int code, const char *why, char out[64])
{
    if (why)
        snprintf(out, 64, "%s", why);
    else if (code == 0)
        snprintf(out, 64, "the program finished");
    else if (code == EXIT_LOST)
        snprintf(out, 64, "a worker was lost");
    else if (code == 128 + SIGINT)
        snprintf(out, 64, "Ctrl-C");
    else if (code > 128)
        snprintf(out, 64, "SIG%s", stopping_name(code - 128));
    else
        snprintf(out, 64, "an error");
}

/* Prints a time such as "2 h 3 min", "4 min 5 s" or "1.25 s". */
static void
print_duration(double seconds, char out[40])
{
    long s = (long)seconds;
    if (s >= 3600)
        snprintf(out, 40, "%ld h %ld min", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(out, 40, "%ld min %ld s", s / 60, s % 60);
    else
        snprintf(out, 40, "%.2f s", seconds);
}

void
ending_when(char out[ENDING_WHEN])
{
    char took[40], date[40];
    time_t now = time(NULL);
    struct tm utc;
    print_duration(clock_seconds() - ending.start, took);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&now, &utc));
    snprintf(out, ENDING_WHEN, "ended at %s after %s", date, took);
}

void
ending_tell(int code, const char *why)
{
    char text[400], reason[64], when[ENDING_WHEN];
    if (ending.pid != getpid()) return;
    ending.pid = 0;
    double seconds = clock_seconds() - ending.start;
    print_reason(code, why, reason);
    ending_when(when);
    snprintf(text, sizeof text, "%s %s: %s, exit code %d", ending.job, when, reason, code);
    journal_flush();
    journal_write("end", json_pack("{s:s, s:i, s:f}", "reason", reason, "code", code, "seconds", seconds));
    if (!ending.tells || (code == 0 && seconds < SHORT)) return;
    fflush(stdout);
    fprintf(stderr, "rille: %s\n", text);
}
