/* clock.h - the shell's clock: seconds from some start, never backwards. Any thread, also in a signal handler. The
 * shell includes no header of the core except rille.h, so it cannot use runtime/base/clock.h. */
#ifndef RILLE_SHELL_CLOCK_H
#define RILLE_SHELL_CLOCK_H

#include <time.h>

static inline double
clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
