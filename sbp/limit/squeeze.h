/* squeeze.h - finds a choice that meets a memory limit (inside sbp/).
 *
 * The method is column generation (Dantzig & Wolfe 1960). At the few times at which a choice exceeded the limit,
 * bytes get a price. The net with these prices is solved like a net without a limit. Each solution is a new choice;
 * the Lagrangian dual over all choices so far gives the next prices. A converted copy costs its bytes from its first
 * to its last reader. Several nodes' candidates determine which readers need the copy. So a first search counts all
 * readers that may need the copy, and a second search counts only the readers that need it in the current choice.
 * Finally, squeeze() mixes a choice above the limit with a choice below it, by taking some layers from each.
 * squeeze() proves no bound; limited.h does.
 *
 * squeeze() does not call stop() until a choice is within the limit or a fixed amount of work is done. So neither
 * the success of the search nor the least peak depends on the clock. One call, one thread. */
#ifndef RILLE_SBP_SQUEEZE_H
#define RILLE_SBP_SQUEEZE_H

#include "sbp/limit/limited.h"

struct lowest { /* the choice with the least peak found; peak INT64_MAX: none */
    int64_t peak;
    int32_t *choice;
};
/* Searches for a choice within the memory limit. start: a feasible choice. r: the best known choice within the
 * limit, if any; replaced by a better one. price: receives the final prices by time, 2^-LIMIT_SHIFT ns per byte.
 * lowest: the choice with the least peak; replaced by one with a lower peak. */
void squeeze(const struct net *n, const struct solve_options *o, const int32_t *start, struct best *r, int64_t *price,
             struct lowest *lowest);

#endif
