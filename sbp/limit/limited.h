/* limited.h - the best choice that meets a memory limit, or a choice and a bound (inside sbp/).
 *
 * Lagrangian prices of memory (limit.h) give bounds, and choices that nearly meet the limit. Large neighbourhood
 * search (nearby.h) makes these choices meet the limit and improves them. For nets of few nodes, branching closes
 * the gap. One call, one thread; results are allocated in the caller's arena. */
#ifndef RILLE_SBP_LIMITED_H
#define RILLE_SBP_LIMITED_H

#include "sbp/limit/copies.h"
#include "runtime/base/str.h"
#include "sbp/net/options.h"

struct best { /* choice: a candidate for each node, valid if cost < NET_NEVER */
    int32_t *choice;
    int64_t cost, bound;
};
/* Searches n. r: in, the bound without the limit and the best known choice that meets it, if any; out, the best
 * choice and bound found. price: initial prices by time, 2^-LIMIT_SHIFT nanoseconds per byte; NULL: none.
 * *least_peak: lowered to the least peak of any choice seen. copies: how n was derived; NULL: n has no copy nodes.
 * best_price, net_times(n) entries: receives the prices of the best bound, in the proof's unit. */
void limited_solve(const struct net *n, const struct copies *copies, const struct solve_options *o, struct best *r,
                   const int64_t *price, int64_t *least_peak, int64_t *best_price);
/* Writes the steps that prove a bound on n at these prices, by time, in 2^-LIMIT_SHIFT scaled nanoseconds; replaces
 * them by the prices actually used. Returns the bound, at most `most`. */
int64_t limited_prove(const struct net *n, int64_t *price, int64_t most, struct str *text);
int64_t limited_ceil(int64_t a, int64_t b);

#endif
