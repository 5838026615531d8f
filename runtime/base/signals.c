/* signals.c - blocks and unblocks signals of the calling thread. */
#include "runtime/base/signals.h"

#include "runtime/base/base.h"
#include "runtime/base/clock.h"

#include <pthread.h>
#include <signal.h>

/* signals for faulty instructions of the thread itself; the system delivers these even if they are blocked */
static const int own_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};

static _Thread_local struct {
    bool on;
    int64_t since_ns;
    sigset_t before;
} held;

void
signals_hold(void)
{
    sigset_t all;
    if (held.on) return;
    sigfillset(&all);
    for (size_t i = 0; i < countof(own_faults); i++) sigdelset(&all, own_faults[i]);
    pthread_sigmask(SIG_BLOCK, &all, &held.before);
    held.on = true;
    held.since_ns = now_ns();
}

void
signals_pass(void)
{
    if (!held.on) return;
    held.on = false;
    pthread_sigmask(SIG_SETMASK, &held.before, NULL);
}

void
signals_pass_in_time(void)
{
    enum { LONGEST_NS = 1000000 };
    if (held.on && now_ns() - held.since_ns > LONGEST_NS) signals_pass();
}
