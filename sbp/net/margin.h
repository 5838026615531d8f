/* margin.h - min-marginals: the least cost of a solution with each value, for all values at once (inside sbp/).
 *
 * The method is bucket elimination. The forward pass combines all tables that contain a variable into one, and
 * passes the minimum over the variable to its neighbours. The backward pass adds to each table the cost of the rest
 * of the network, which gives the min-marginal of every value. So two passes suffice for all values, whereas a
 * search needs one run per value. A table that would be too large is split (mini-buckets), as if the variable were
 * duplicated; the results are then lower bounds. One call, one thread. */
#ifndef RILLE_SBP_MARGIN_H
#define RILLE_SBP_MARGIN_H

#include "sbp/net/cfn.h"

struct margin_options {
    int64_t below;   /* cap on results: a min-marginal of at least this cost is reported as this cost */
    int64_t largest; /* maximum number of entries of one table */
    int64_t most;    /* number of entries left for all tables; decreases */
};
/* Raises at[v][i] to the least cost of solutions with value i of variable v, but at most to `below`. Each value of
 * the network must have support (reduce.h). Messages of a dual in the network are kept. Returns false, without
 * changes, if tables would be too large. *exact: no table was split, so results less than `below` are exact. */
bool margin_raise(const struct cfn *c, struct margin_options *o, int64_t *const *at, bool *exact);

#endif
