/* stop.h - how a kernel that takes long learns that nobody wants its result any more.
 *
 * Whoever runs kernels on a thread names a question; a kernel asks it between parts of its work that take some tens of
 * milliseconds, and after a yes returns E_CANCEL, its results half written. Belongs to the calling thread. */
#ifndef RILLE_RUNTIME_STOP_H
#define RILLE_RUNTIME_STOP_H

#include <stdbool.h>

void stop_ask(bool (*wanted)(void *arg), void *arg); /* NULL: nobody */
/* 0, or E_CANCEL after fail(). */
int stop_check(void);

#endif
