/* lowest.h - the least peak of memory that any choice of a net has, and what is proved of it (inside sbp/).
 *
 * Limits are halved between what floor.h proves and the least peak known. A search of counted work looks for each, so
 * that what is found does not depend on the clock; nets for which that would take long are left alone. What is between
 * then is split. Pure; one call, one thread. */
#ifndef RILLE_SBP_LOWEST_H
#define RILLE_SBP_LOWEST_H

#include "sbp/solve.h"

/* Is the net small enough? */
bool lowest_is_sought(const struct net *n);
/* Where (work.h) a search for it that begins now ends: after a small part of a second. */
int64_t lowest_until(void);
/* peak: of a choice that is known; o->start: one that is possible, whatever it holds. o->stop is asked between limits.
 * Returns the least peak found; *bound: no peak is below it, so where they are equal there is no lower one. It ends
 * when it finds a choice that keeps n's limit, which others than the search for that limit may: *choice, in a; NULL:
 * none does. */
int64_t lowest_peak(struct arena *a, const struct net *n, const struct solve_options *o, int64_t peak, int64_t *bound,
                    const int32_t **choice);

#endif
