/* lua_stopping.c - signals that ask the process to stop, and the primitives of lua/stopping.lua.
 *
 * A program that calls rille.stopping() handles these signals itself: the first signal is only recorded. A second
 * signal, more than a second later, ends the process at once. Signals within that second count as one, because
 * launchers and timeout(1) signal both a process and its group. */
#include "shell/bind/base/clock.h"
#include "shell/bind/module/lua_stopping.h"
#include "shell/bind/base/lua_error.h"
#include "shell/bind/base/shell.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { TOGETHER = 1 }; /* s: signals within this time count as one */

static const struct stop_signal {
    const char *name;
    int number;
} signals[] = {{"TERM", SIGTERM}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}};
enum { NSIGNAL = sizeof signals / sizeof *signals };

static atomic_int received;                 /* number of the first signal; 0: none; workers read it on another thread */
static uint64_t handled;                    /* signals that the program handles; bit N stands for signal N */
static void (*on_exit_at_once)(int number); /* stopping_on_exit(); NULL: none */
static bool declined;                       /* true: signals end the program even if it calls rille.stopping() */

const char *
stopping_name(int number)
{
    for (int i = 0; i < NSIGNAL; i++)
        if (signals[i].number == number) return signals[i].name;
    return number == SIGALRM ? "ALRM" : number == SIGPIPE ? "PIPE" : "?";
}

void
stopping_tell(int number)
{
    char line[64] = "rille: ended by SIG";
    strcat(strcat(line, stopping_name(number)), "\n");
    ssize_t written = write(2, line, strlen(line));
    (void)written;
}

void
stopping_on_exit(void (*function)(int number))
{
    on_exit_at_once = function;
}

void
stopping_exit(int number)
{
    if (on_exit_at_once) on_exit_at_once(number);
    _exit(128 + number);
}

void
stopping_now(int number)
{
    stopping_tell(number);
    stopping_exit(number);
}

void
stopping_note(int number)
{
    static double first;
    double now = clock_seconds();
    if (received && now - first > TOGETHER) stopping_now(number);
    if (received) return;
    first = now;
    received = number;
}

int
stopping_noted(void)
{
    return received;
}

void
stopping_catch(void (*handler)(int number), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, was;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < NSIGNAL; i++) {
        sigaction(signals[i].number, NULL, &was);
        if (was.sa_handler != SIG_IGN) sigaction(signals[i].number, &action, NULL);
    }
}

void
stopping_decline(void)
{
    declined = true;
}

/* ---- functions for lua/stopping.lua ---- */

/* rille._stop_on(name): declares that the program handles a signal. Returns false if the name is unknown. */
static int
stop_on(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    struct sigaction action = {.sa_handler = stopping_note, .sa_flags = SA_RESTART};
    int i = 0;
    while (i < NSIGNAL && strcmp(signals[i].name, name)) i++;
    lua_pushboolean(L, i < NSIGNAL);
    if (i == NSIGNAL || handled >> signals[i].number & 1) return 1;
    handled |= 1ull << signals[i].number;
    check(L, rille_hear(shell_of(L)->session, handled));
    sigemptyset(&action.sa_mask);
    if (!declined) sigaction(signals[i].number, &action, NULL);
    return 1;
}

/* rille._stop_signal(): returns the first signal that was received, as "SIGTERM" or "SIGTERM of worker 2"; nil:
 * none. */
static int
stop_signal(lua_State *L)
{
    int rank, heard = received ? 0 : rille_heard(shell_of(L)->session, &rank);
    if (!received && !heard) return 0;
    if (heard)
        lua_pushfstring(L, "SIG%s of worker %d", stopping_name(heard), rank);
    else
        lua_pushfstring(L, "SIG%s", stopping_name(received));
    return 1;
}

void
stopping_open(lua_State *L)
{
    static const luaL_Reg functions[] = {{"_stop_on", stop_on}, {"_stop_signal", stop_signal}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
