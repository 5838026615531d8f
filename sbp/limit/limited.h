/* limited.h - a lower bound on the cost of choices within a memory limit, and its proof (inside sbp/).
 *
 * Lagrangian prices of memory (limit.h) give the bound: no choice within the limit costs less than the least cost at
 * these prices minus the limit's worth (the sum of the prices times the limit). Converted copies count no bytes
 * here, because their live ranges depend on several choices; the bound holds without them. One call, one thread;
 * results are allocated in the caller's arena. */
#ifndef RILLE_SBP_LIMITED_H
#define RILLE_SBP_LIMITED_H

#include "runtime/data/str.h"
#include "sbp/net/options.h"

struct best { /* choice: a candidate for each node; valid if cost < NET_NEVER */
    int32_t *choice;
    int64_t cost, bound;
};
/* Raises r->bound. Replaces r->choice if a cheaper choice within the limit is found. price: net_times(n) entries.
 * In: the initial price of each time, 2^-LIMIT_SHIFT ns per byte (squeeze.h); out: prices of the best bound, in
 * the unit of the proof. */
void limited_bound(const struct net *n, const struct solve_options *o, struct best *r, int64_t *price);
/* Writes the steps that prove a lower bound on the cost of n at the given prices. price: by time, 2^-LIMIT_SHIFT
 * scaled ns per byte; replaced by the prices actually used. Returns the bound, at most `most`. */
int64_t limited_prove(const struct net *n, int64_t *price, int64_t most, struct str *text);
int64_t limited_ceil(int64_t a, int64_t b);

#endif
