/* squeeze.h - a choice that keeps a memory limit, soon (inside sbp/).
 *
 * Bytes have a price at the few times at which too much was live, and a net whose costs include what bytes cost is
 * solved like one without a limit: that gives one choice after the other, and of all that it has the dual says which
 * prices come next (Dantzig & Wolfe 1960). Between two choices, one above the limit and one below, lie those that have
 * some layers of the one and the others of the other. Copies cost as if all readers that may want one did, so the net
 * stays as small as without a limit. It proves nothing: limited.h does.
 *
 * Until it knows a choice that keeps the limit, or has looked for one long enough, it does not ask stop(), unless it
 * may fail: so that one is found, or the least, does not depend on the clock. One call, one thread. */
#ifndef RILLE_SBP_SQUEEZE_H
#define RILLE_SBP_SQUEEZE_H

#include "sbp/limited.h"

/* start: a possible choice. r: the best one that keeps the limit, if any is known; becomes a better one. price: by
 * time, those at which it ended, in 2^-LIMIT_SHIFT nanoseconds a byte. *least_peak: of all choices that it saw. */
void squeeze(const struct net *n, const struct solve_options *o, const int32_t *start, struct best *r, int64_t *price,
             int64_t *least_peak);

#endif
