/* thread.h - threads for work that belongs to no device. The thread that starts a thread owns and joins it. */
#ifndef RILLE_RUNTIME_THREAD_H
#define RILLE_RUNTIME_THREAD_H

#include <pthread.h>

/* Starts a thread with all signals blocked, so that only other threads handle signals. E_STATE: the thread could
 * not be started. */
int thread_start(pthread_t *out, void *(*run)(void *arg), void *arg);
/* Checks that this process can start `n` more threads, at most THREADS_CHECKED. ZeroMQ ends the process if it cannot
 * start a thread, so its callers use this function first. Another process of the same user can still start threads
 * in between, and reach the limit. E_STATE: the threads cannot be started. */
enum { THREADS_CHECKED = 4 };
int thread_check(int n);

#endif
