/* clock.h - the clock for all measurements: CLOCK_MONOTONIC in nanoseconds. Also returns the CPU time of the
 * calling thread, in nanoseconds. Any thread. */
#ifndef RILLE_RUNTIME_CLOCK_H
#define RILLE_RUNTIME_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t
now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t
computed_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
