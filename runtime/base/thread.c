/* thread.c - starts threads that handle no signals. */
#include "runtime/base/thread.h"

#include "runtime/base/error.h"
#include "runtime/base/system.h"

#include <assert.h>
#include <errno.h>
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
    if (why == EAGAIN)
        return fail(E_STATE,
                    "a thread could not be started: %s; increase the largest number of threads (ulimit -u, "
                    "pids.max of the control group) or the memory limit",
                    strerror(why));
    return why ? fail(E_STATE, "a thread could not be started: %s", strerror(why)) : 0;
}

struct probe {
    pthread_t thread;
    pthread_mutex_t *gate; /* locked until all threads have been started */
    int id;                /* the system's number of the thread */
};

static void *
run_probe(void *arg)
{
    struct probe *p = arg;
    p->id = system_thread_id();
    pthread_mutex_lock(p->gate);
    pthread_mutex_unlock(p->gate);
    return NULL;
}

int
thread_check(int n)
{
    struct probe probe[THREADS_CHECKED];
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    int status = 0, started = 0;
    assert(n <= THREADS_CHECKED);
    pthread_mutex_lock(&gate);
    while (started < n && !status) {
        struct probe *p = &probe[started];
        p->gate = &gate;
        status = thread_start(&p->thread, run_probe, p);
        started += !status;
    }
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < started; i++) {
        pthread_join(probe[i].thread, NULL);
        system_thread_await(probe[i].id); /* until then the system counts the thread */
    }
    return status;
}
