/* clock.h - what benchmarks that time themselves share: the clock, and the order of times. */
#ifndef RILLE_BENCH_CLOCK_H
#define RILLE_BENCH_CLOCK_H

#include <time.h>

static inline double
now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* For qsort: doubles, the least first. */
static inline int
by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#endif
