/* peak_bound.h - a proved lower bound on the peak memory of any choice (inside sbp/).
 *
 * A Lagrangian relaxation in which only bytes count: one unit of price is shared among the times. For any shares,
 * the cheapest choice costs at most the least peak. Subgradient steps raise the shares of times with many live
 * bytes. When the steps stall, the candidates are split (branch and bound, parts.h) until every partition is bounded
 * by a known peak, or a lower peak is found. Pure; one call, one thread. */
#ifndef RILLE_SBP_PEAK_BOUND_H
#define RILLE_SBP_PEAK_BOUND_H

#include "sbp/net/net.h"

struct peak_bound_options {
    int64_t until;           /* work count at which the search ends (work.h) */
    bool split;              /* branch when subgradient steps stall */
    bool (*stop)(void *arg); /* NULL: never */
    void *arg;
};
/* Returns a number that divides every peak. */
int64_t peak_bound_unit(const struct net *n);
/* Returns a simple lower bound on every peak: values are counted independently, each with its fewest bytes. */
int64_t peak_bound_alone(const struct net *n);
/* Raises *bound, a lower bound on every peak, and lowers *peak, the peak of a known choice. The two are equal if the
 * search finished. *choice (allocated in a): a choice with the new *peak; NULL: no lower peak was found. */
void peak_bound_find(struct arena *a, const struct net *n, const struct peak_bound_options *o, int64_t *bound,
                     int64_t *peak, const int32_t **choice);

#endif
