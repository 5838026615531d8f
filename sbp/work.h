/* work.h - how much the calling thread has searched so far: a clock that goes by what is looked at, not by time.
 *
 * A search counts the costs that it looks at, about, where it looks at them; one is a nanosecond of a core, about. Who
 * gives a search so much time at most lets it end when so much has been counted: at the same place on every machine,
 * whatever else that does. Any thread; each has a count of its own, which only grows. */
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
