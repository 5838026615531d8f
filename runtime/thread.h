/* thread.h - a thread beside the caller's, for work that is not a device's. Who starts it owns it, and joins it. */
#ifndef RILLE_RUNTIME_THREAD_H
#define RILLE_RUNTIME_THREAD_H

#include <pthread.h>

/* It takes no signals: they are the caller's. E_STATE: there is none. */
int thread_start(pthread_t *out, void *(*run)(void *arg), void *arg);

/* Returns how many cores this process may use: those that its launcher bound it to, or all. */
int thread_cores(void);

#endif
