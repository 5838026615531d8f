/* dual.h - TRW-S dual ascent: a lower bound on a cost function network, and pruning by that bound (inside sbp/).
 *
 * Messages move cost from edges to the values of their ends. The cost of every solution stays the same, but the sum
 * of the least entries of all variables and edges rises; that sum is a lower bound on every solution. A sweep sends
 * messages in the order of the variables and back (TRW-S: Kolmogorov 2006). Messages are integers, so the bound is
 * exact despite rounding. During a sweep, values are chosen one after the other, which gives solutions, and so upper
 * bounds, at no extra cost. A dual belongs to the search that made it, and its thread. */
#ifndef RILLE_SBP_DUAL_H
#define RILLE_SBP_DUAL_H

#include "sbp/net/cfn.h"

struct dual_end_of;
struct dual {
    struct cfn *c;
    int32_t n, *order; /* the remaining variables, by rank */
    int32_t *first;    /* by position in that order, with an end mark: first edge end of the variable */
    struct dual_end_of *end;
    int64_t *messages;    /* messages of all edge ends, concatenated */
    bool pruned;          /* the network has changed since, and owns the messages */
    int64_t *sum, *given; /* scratch, by value */
    int32_t *pick;        /* by variable: index of its value in the current solution */
    int64_t bound;        /* bound on the whole network, constant included */
    int64_t entries;      /* entries of all tables: the work of a sweep */
    int64_t nmessage;     /* length of `messages` */
};
/* Writes the remaining variables in sweep order to `order`, which must have room for all. Returns their number. */
int32_t dual_order(const struct cfn *c, int32_t *order);
/* Starts on a reduced network, in which every value is possible. Continues from the network's messages; dual_end
 * stores them back and frees the arrays. */
void dual_begin(struct dual *d, struct cfn *c);
void dual_end(struct dual *d);
/* Does n sweeps back and forth, at least one. Afterwards pick holds a solution. */
void dual_sweep(struct dual *d, int n);
/* Sets `bound` to the exact bound of the current messages. */
void dual_bound(struct dual *d);
/* Improves pick by local search, one variable at a time, until no change gains. Returns the cost of pick. */
int64_t dual_polish(struct dual *d);
/* Drops values whose lower bound reaches `below` (reduced-cost fixing), and writes the justifying messages into the
 * proof. Needs dual_bound; dual_end must follow. *gone: number of values dropped. Returns false if a variable lost
 * its last value: no solution costs less than `below`. */
bool dual_prune(struct dual *d, int64_t below, int64_t *gone);
/* Returns lower bounds on the solutions with each value of the k-th variable in sweep order, given `bound`; valid
 * until the next call. */
const int64_t *dual_value_bounds(struct dual *d, int32_t k);

#endif
