/* system.c - the functions of system.h that are the same on all systems. */
#include "runtime/base/system.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>

int
system_thread_start(pthread_t *out, void *(*run)(void *arg), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(out, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
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

static int
check_threads(int n)
{
    struct probe probe[SYSTEM_CHECKED];
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    int code = 0, started = 0;
    pthread_mutex_lock(&gate);
    while (started < n && !code) {
        struct probe *p = &probe[started];
        p->gate = &gate;
        code = system_thread_start(&p->thread, run_probe, p);
        started += !code;
    }
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < started; i++) {
        pthread_join(probe[i].thread, NULL);
        system_thread_await(probe[i].id); /* until then the system counts the thread */
    }
    return code;
}

static int
check_files(int n)
{
    int fd[SYSTEM_CHECKED], opened = 0, code = 0;
    while (opened < n && !code) {
        fd[opened] = open("/", O_RDONLY | O_CLOEXEC);
        if (fd[opened] < 0)
            code = errno;
        else
            opened++;
    }
    while (opened) close(fd[--opened]);
    return code;
}

int
system_check(int n, int files)
{
    assert(n <= SYSTEM_CHECKED && files <= SYSTEM_CHECKED);
    int code = check_files(files);
    return code ? code : check_threads(n);
}
