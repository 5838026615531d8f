/* margin.h - what every value of a cost function network costs at the least, all at once (inside sbp/).
 *
 * Variables go one after the other, as by hand: the tables that one is in become one table, of which its neighbours
 * keep the least. On the way back each table hears what the rest costs, and so each value what the best solution with
 * it does: two passes for all, where a search takes one for each. A table that would be too large is made in parts, as
 * if there were that many variables of that name; then what is found is a bound. One call, one thread. */
#ifndef RILLE_SBP_MARGIN_H
#define RILLE_SBP_MARGIN_H

#include "sbp/cfn.h"

struct margin_options {
    int64_t below;   /* solutions that cost as much are of no interest */
    int64_t largest; /* entries of one table */
    int64_t most;    /* of all together; it counts down */
};
/* Raises at[v][i] to what solutions with value i of variable v cost at least, `below` if they cost no less. Each value
 * of the network has support (reduce.h); its messages may be those of a dual, and stay. False: tables would be too
 * large, and nothing was done. *exact: no table is in parts, so that what is less than `below` is what a solution
 * costs. */
bool margin_raise(const struct cfn *c, struct margin_options *o, int64_t *const *at, bool *exact);

#endif
