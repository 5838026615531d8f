/* ending.c - says when and why a job ended. */
#include "shell/bind/module/lua_stopping.h"
#include "shell/launch/ending.h"

#include "runtime/base/system.h"
#include "shell/bind/base/clock.h"
#include "shell/bind/base/shell.h"
#include "shell/launch/front.h"
#include "shell/run/interrupt.h"
#include "shell/run/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <lauxlib.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SHORT = 600,      /* s: a job that succeeds within this time prints no line on stderr */
    EXIT_MASK = 0xff, /* the bits of an exit code that the system keeps */
    QUIET = 0x80      /* flag of the byte for the watching process: only the log reports the end */
};

static struct {
    pid_t pid; /* id of the process that reports the end; 0: no job was begun */
    bool tells, closes;
    int watcher;  /* write end of the pipe to the watching process; 0: there is none */
    double start; /* clock_seconds() when the job began */
    char job[128];
} ending;

/* Implements os.exit([code[, close]]): reports the end of the job, then calls Lua's own function. */
static int
exit_told(lua_State *L)
{
    lua_Integer given = lua_isboolean(L, 1) ? !lua_toboolean(L, 1) : luaL_optinteger(L, 1, EXIT_SUCCESS);
    int code = (int)(given & EXIT_MASK);
    ending_tell(code, "os.exit");
    rille_end_with(shell_of(L)->session, code);
    lua_settop(L, 2);
    if (ending.closes) lua_pushboolean(L, true), lua_replace(L, 2);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 2, 0);
    return 0;
}

void
ending_begin(void)
{
    ending.start = clock_seconds();
}

void
ending_hook(lua_State *L, bool closes)
{
    ending.closes = closes;
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

/* ---- the process that watches ---- */

/* Returns how many processes the kernel has killed for lack of memory: those of this control group if it limits the
 * memory, else those of the machine. */
static long
count_memory_kills(void)
{
    struct rille_limits limits;
    char path[sizeof limits.memory_from + sizeof "memory.oom_control"] = "/proc/vmstat", line[200];
    long n = 0;
    if (!rille_limits(&limits) && limits.memory_from[0]) {
        int folder = (int)(strrchr(limits.memory_from, '/') - limits.memory_from);
        snprintf(path, sizeof path, "%.*s/memory.events", folder, limits.memory_from);
        if (access(path, R_OK)) snprintf(path, sizeof path, "%.*s/memory.oom_control", folder, limits.memory_from);
    }
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) sscanf(line, "oom_kill %ld", &n);
    if (file) fclose(file);
    return n;
}

/* Reports that the job's process has ended without a report. */
static void
tell_killed(pid_t of, bool memory)
{
    char when[ENDING_WHEN], reason[128];
    snprintf(reason, sizeof reason, "the %s (process %d) was killed%s", ending.tells ? "controller" : "program",
             (int)of, memory ? ", perhaps because memory was exhausted" : "");
    ending_when(when);
    journal_write("end", json_pack("{s:s, s:f}", "reason", reason, "seconds", clock_seconds() - ending.start));
    if (ending.tells) fprintf(stderr, "rille: %s %s: %s\n", ending.job, when, reason);
}

/* Runs the watching process: waits until the job's process writes a byte or ends. A byte 0 means that the end was
 * reported; any other byte is the signal that ends the job's process at once, perhaps with the flag QUIET. */
static void
watch_job(int from, pid_t of)
{
    static const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGTTOU};
    unsigned char byte = 0;
    ssize_t n;
    setpgid(0, 0); /* signals to the group of the job's process do not end this process */
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], SIG_IGN);
    int null = open("/dev/null", O_RDWR); /* readers of stdout must not wait for this process */
    for (int k = 0; k < 2 && null >= 0; k++) dup2(null, k);
    long before = count_memory_kills();
    while ((n = read(from, &byte, 1)) < 0 && errno == EINTR) continue;
    if (n == 0) {
        tell_killed(of, count_memory_kills() > before);
    } else if (byte) {
        ending.pid = getpid();
        ending.watcher = 0;
        ending.tells = ending.tells && !(byte & QUIET);
        ending_tell(128 + (byte & ~QUIET), NULL);
    }
    _exit(0);
}

/* Tells the watching process that the end was reported (0), or which signal ends this process. */
static void
tell_watcher(int number)
{
    unsigned char byte = (unsigned char)number;
    if (ending.watcher && ending.pid == getpid() && write(ending.watcher, &byte, 1) < 0) return;
}

/* Handles SIGPIPE: ends this process by the signal, as without a handler. If stdout has lost its reader (`| head`),
 * only the log reports the end; else another pipe of the program has, which is worth a line on stderr. */
static void
on_lost_reader(int number)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    bool quiet = poll(&out, 1, 0) == 1 && out.revents & (POLLERR | POLLHUP);
    signal(number, SIG_DFL);
    tell_watcher(number | (quiet ? QUIET : 0));
    kill(getpid(), number);
}

static void
start_watcher(void)
{
    int fd[2];
    pid_t of = getpid();
    if (system_pipe(fd, false)) return; /* without a second process, the end of a killed job is not reported */
    fflush(NULL);
    if (fork() == 0) {
        close(fd[1]);
        watch_job(fd[0], of);
    }
    /* fd[0] stays open: writing to a pipe without a reader raises SIGPIPE, and the watching process may be killed */
    ending.watcher = fd[1];
    stopping_on_exit(tell_watcher);
    /* Ctrl-C while no Lua code runs, for example before the workers have joined */
    struct sigaction action = {.sa_handler = stopping_exit}, was;
    if (!sigaction(SIGINT, NULL, &was) && was.sa_handler == SIG_DFL) sigaction(SIGINT, &action, NULL);
    action.sa_handler = on_lost_reader;
    if (!sigaction(SIGPIPE, NULL, &was) && was.sa_handler == SIG_DFL) sigaction(SIGPIPE, &action, NULL);
}

/* ---- the end ---- */

void
ending_open(const char *job, bool tells, bool watches)
{
    const char *slash = strrchr(job, '/');
    ending.pid = getpid();
    ending.tells = tells;
    ending_begin();
    snprintf(ending.job, sizeof ending.job, "%s", slash ? slash + 1 : job);
    journal_event("begin", job);
    if (watches) start_watcher();
}

void
ending_tell(int code, const char *why)
{
    char text[400], reason[64], when[ENDING_WHEN];
    if (ending.pid != getpid()) return;
    interrupt_close();
    tell_watcher(0);
    ending.pid = 0;
    double seconds = clock_seconds() - ending.start;
    print_reason(code, why, reason);
    ending_when(when);
    snprintf(text, sizeof text, "%s %s: %s, exit code %d", ending.job, when, reason, code);
    journal_flush();
    journal_write("end", json_pack("{s:s, s:i, s:f}", "reason", reason, "code", code, "seconds", seconds));
    if (!ending.tells || (code == 0 && seconds < SHORT) || (code == EXIT_USAGE && !why)) return;
    fflush(stdout);
    fprintf(stderr, "rille: %s\n", text);
}
