/* clock.h - clocks in microseconds and a comparison of times, shared by the benchmarks. */
#ifndef RILLE_BENCH_CLOCK_H
#define RILLE_BENCH_CLOCK_H

#include "runtime/base/clock.h"

static inline double
now_us(void)
{
    return (double)now_ns() / 1e3;
}

/* Returns the processor time of this thread, us. Other work on the machine does not count. */
static inline double
own_us(void)
{
    return (double)computed_ns() / 1e3;
}

/* Compares doubles for qsort, in ascending order. */
static inline int
by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#endif
