/* thread.h - threads for work that belongs to no device. The thread that starts a thread owns and joins it. */
#ifndef RILLE_RUNTIME_THREAD_H
#define RILLE_RUNTIME_THREAD_H

#include <pthread.h>

/* Calls system_thread_start(). E_STATE: the thread could not be started. */
int thread_start(pthread_t *out, void *(*run)(void *arg), void *arg);
/* Calls system_check(). E_STATE: the threads cannot be started, or the descriptors cannot be opened. */
int thread_check(int n, int files);

#endif
