/* work.h - the work counter of the calling thread: a deterministic clock for searches.
 *
 * A search adds the approximate number of costs that it reads; one count takes about a nanosecond. A search with a
 * time limit ends at a count of work, so it ends at the same point on every machine and under any load. Any thread;
 * counters are per thread and only grow. */
#ifndef RILLE_SBP_WORK_H
#define RILLE_SBP_WORK_H

#include <stdint.h>

extern _Thread_local int64_t work_count;

static inline int64_t
work_done(void)
{
    return work_count;
}

static inline void
work_add(int64_t n)
{
    work_count += n;
}

#endif
