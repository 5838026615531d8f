/* squeeze.h - finds a choice that meets a memory limit (inside sbp/).
 *
 * Column generation (Dantzig & Wolfe 1960). Bytes have a price at the few times that were over the limit, and the
 * net with these prices is solved like a net without a limit. Each solution is a new choice; the Lagrangian dual
 * over all choices so far gives the next prices. A converted copy has a price like a candidate, from its first to its
 * last reader; since these depend on several choices, a first search counts all readers that may want the copy, and a
 * second one those of the current choice. Then layers are mixed: between a choice above the limit and a choice below it
 * are choices with some layers of each. squeeze proves nothing; limited.h does.
 *
 * squeeze does not poll stop() before a choice meets the limit or the search was long enough.
 * So finding a choice, or the least peak, does not depend on the clock. One call, one thread. */
#ifndef RILLE_SBP_SQUEEZE_H
#define RILLE_SBP_SQUEEZE_H

#include "sbp/limit/limited.h"

struct lowest { /* the choice of the least peak seen; INT64_MAX: none */
    int64_t peak;
    int32_t *choice;
};
/* start: a possible choice. r: the best known choice that meets the limit, if any; improved. price: receives the
 * final prices by time, 2^-LIMIT_SHIFT nanoseconds per byte. lowest: improved. */
void squeeze(const struct net *n, const struct solve_options *o, const int32_t *start, struct best *r, int64_t *price,
             struct lowest *lowest);

#endif
