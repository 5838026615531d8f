/* clock.h - the shell's clock: seconds since an arbitrary start (monotonic), and the date. Any thread may call the
 * functions; clock_seconds() is also safe in a signal handler. The shell includes no header of the core except
 * rille.h, so it cannot use runtime/base/clock.h. */
#ifndef RILLE_SHELL_CLOCK_H
#define RILLE_SHELL_CLOCK_H

#include <stdio.h>
#include <time.h>

static inline double
clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Writes the date and time in UTC: "2026-11-30T03:05:12.120000Z". Not safe in a signal handler. */
enum { CLOCK_DATE = 40 };
static inline void
clock_date(char out[CLOCK_DATE])
{
    struct timespec t;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &utc);
    size_t n = strftime(out, 30, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(out + n, CLOCK_DATE - n, ".%06ldZ", t.tv_nsec / 1000);
}

#endif
