/* thread.c - starts threads that handle no signals, and counts cores. */
#include "runtime/base/thread.h"

#include "runtime/base/error.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

int
thread_start(pthread_t *out, void *(*run)(void *arg), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int why = pthread_create(out, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return why ? fail(E_STATE, "a thread could not be started: %s", strerror(why)) : 0;
}

int
thread_cores(void)
{
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof mine, &mine) == 0) return CPU_COUNT(&mine);
    return (int)sysconf(_SC_NPROCESSORS_ONLN); /* the machine has more cores than a cpu_set_t can hold */
}
