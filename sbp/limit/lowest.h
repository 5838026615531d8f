/* lowest.h - the least peak memory of any choice, and a proved lower bound on it (inside sbp/).
 *
 * Bisects the limit between the bound of peak_bound.h and the least peak known. Each limit gets a search of counted
 * work, so the result does not depend on the clock; nets that would take long are skipped. The interval that remains is
 * closed by branching. Pure; one call, one thread. */
#ifndef RILLE_SBP_LOWEST_H
#define RILLE_SBP_LOWEST_H

#include "sbp/net/options.h"

/* Returns true if the net is small enough for this search. */
bool lowest_is_sought(const struct net *n);
/* Returns the work count (work.h) at which a search started now ends: a small fraction of a second away. */
int64_t lowest_until(void);
/* Searches for the least peak. peak: that of a known choice. o->start: a possible choice, whatever its peak. o->stop
 * is asked between limits. Returns the least peak found; *bound: a lower bound on every peak, so if equal, the peak
 * is optimal. Ends as soon as a choice meets n's limit, at whatever limit it was found: *choice (allocated in a);
 * NULL: none. */
int64_t lowest_peak(struct arena *a, const struct net *n, const struct solve_options *o, int64_t peak, int64_t *bound,
                    const int32_t **choice);

#endif
