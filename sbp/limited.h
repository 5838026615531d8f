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
/* r: in, the bound without the limit and the best choice known that keeps it, if any is; out, the best that it found.
 * price: by time, from which it begins, in 2^-LIMIT_SHIFT nanoseconds a byte; NULL. *least_peak: of all choices that it
 * saw. copies: NULL, or what n is made of. best_price: net_times(n), takes the prices of the best bound, as a proof has
 * them. */
void limited_solve(const struct net *n, const struct copies *copies, const struct solve_options *o, struct best *r,
                   const int64_t *price, int64_t *least_peak, int64_t *best_price);
/* Writes the steps that prove a bound on n at prices of its times, in 2^-LIMIT_SHIFT of a nanosecond scaled as n
 * allows. Prices become those that it counted with. Returns the bound, at most `most`. */
int64_t limited_prove(const struct net *n, int64_t *price, int64_t most, struct str *text);
int64_t limited_ceil(int64_t a, int64_t b);

#endif
