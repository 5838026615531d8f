/* limited.h - the best choice that meets a memory limit, or one and how far from the best it can be (inside sbp/).
 *
 * Prices of memory (limit.h) give bounds and choices that nearly meet the limit; nearby.h solves parts of these anew,
 * so that they become choices that do, and better ones. Branching closes a net of few nodes. One call, one thread; what
 * it gives lies in the arena given. */
#ifndef RILLE_SBP_LIMITED_H
#define RILLE_SBP_LIMITED_H

#include "sbp/copies.h"
#include "sbp/solve.h"

struct best { /* choice is a candidate for each node, valid when cost < NET_NEVER */
    int32_t *choice;
    int64_t cost, bound;
};
/* r: in, the bound without the limit; out, the best choice that it found. *least_peak: of all choices that it saw.
 * copies: NULL, or what n is made of. proof: NULL, or takes the proof of the best bound; its prices are in a. */
void limited_solve(struct arena *a, const struct net *n, const struct copies *copies, const struct solve_options *o,
                   struct best *r, int64_t *least_peak, struct solved *proof);
int64_t limited_ceil(int64_t a, int64_t b);

#endif
