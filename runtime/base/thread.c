/* thread.c - starts threads that handle no signals. */
#include "runtime/base/thread.h"

#include "runtime/base/error.h"

#include <signal.h>
#include <string.h>

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
