/* thread.h - threads for work that is not a device's. The thread that starts one owns and joins it. */
#ifndef RILLE_RUNTIME_THREAD_H
#define RILLE_RUNTIME_THREAD_H

#include <pthread.h>

/* Starts a thread that blocks signals, which the caller handles. E_STATE: the thread could not be started. */
int thread_start(pthread_t *out, void *(*run)(void *arg), void *arg);

/* Returns the number of cores that this process may use: those that its launcher bound it to, or all. */
int thread_cores(void);

#endif
