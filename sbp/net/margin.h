/* margin.h - min-marginals: the least cost of a solution with each value, for all values at once (inside sbp/).
 *
 * Bucket elimination. Forward: the tables of a variable are combined into one, and their minimum over the variable
 * is passed to its neighbours. Backward: each table receives the cost of the rest of the network, which gives the
 * min-marginal of every value. Two passes serve all values; a search would need one run per value. A table that
 * would be too large is split (mini-buckets), as if the variable were duplicated; the results are then lower bounds.
 * One call, one thread. */
#ifndef RILLE_SBP_MARGIN_H
#define RILLE_SBP_MARGIN_H

#include "sbp/net/cfn.h"

struct margin_options {
    int64_t below;   /* costs from here on need not be distinguished */
    int64_t largest; /* maximum number of entries of one table */
    int64_t most;    /* remaining entries for all tables; decreases */
};
/* Raises at[v][i] to the least cost of solutions with value i of variable v, at most `below`. Each value of the
 * network must have support (reduce.h). The network may hold messages of a dual; they stay. Returns false, with
 * nothing done, if tables would be too large. *exact: no table was split, so results less than `below` are exact. */
bool margin_raise(const struct cfn *c, struct margin_options *o, int64_t *const *at, bool *exact);

#endif
