/* dual.h - TRW-S dual ascent: a lower bound on a cost function network, and pruning by that bound (inside sbp/).
 *
 * Messages move cost from edges to the values of the variables at their ends. The cost of every solution stays the
 * same, but the sum of the least entries of all variables and edges rises. That sum is a lower bound on every
 * solution. A sweep sends messages along the order of the variables, and back (TRW-S: Kolmogorov 2006). Messages are
 * integers, so the bound is exact despite rounding. Each sweep also chooses a value for one variable after the
 * other, which gives a solution, and so an upper bound, at no extra cost. A struct dual belongs to one search and
 * its thread. */
#ifndef RILLE_SBP_DUAL_H
#define RILLE_SBP_DUAL_H

#include "sbp/net/cfn.h"

struct dual_end_of;
struct dual {
    struct cfn *c;
    int32_t n, *order; /* remaining variables in sweep order */
    /* by position in `order`: index in `end` of the variable's first edge end (an edge as seen from one of its two
     * variables). One more entry marks the end */
    int32_t *first;
    struct dual_end_of *end;
    int64_t *messages;    /* messages of all edge ends, one after the other */
    bool pruned;          /* true: values were removed; the network then owns the messages */
    int64_t *sum, *given; /* work space, indexed by value of a variable */
    int32_t *pick;        /* by variable: index of its value in the current solution */
    int64_t bound;        /* lower bound on the whole network, including the constant */
    int64_t entries;      /* number of entries of all tables, which is the work of a sweep */
    int64_t nmessage;     /* number of entries of `messages` */
};
/* Writes the remaining variables in sweep order to `order`, which must have room for all variables. Returns their
 * number. */
int32_t dual_order(const struct cfn *c, int32_t *order);
/* Begins with the network's messages. The network must be reduced, so that every value is possible. dual_end()
 * stores the messages in the network and frees the arrays. */
void dual_begin(struct dual *d, struct cfn *c);
void dual_end(struct dual *d);
/* Does n sweeps in both directions, at least one. Afterwards `pick` holds a solution. */
void dual_sweep(struct dual *d, int n);
/* Sets `bound` to the lower bound that the current messages give: the sum of the least entries of all variables and
 * edges. */
void dual_bound(struct dual *d);
/* Improves `pick` by local search, one variable at a time, until no change helps. Returns the cost of `pick`. */
int64_t dual_polish(struct dual *d);
/* Removes values whose lower bound reaches `below` (reduced-cost fixing), and writes the messages that justify this
 * into the proof. Call dual_bound() before, and dual_end() afterwards. *gone: number of removed values. Returns
 * false if a variable lost its last value: then no solution costs less than `below`. */
bool dual_prune(struct dual *d, int64_t below, int64_t *gone);
/* Returns, for each value of the k-th variable in sweep order, a lower bound on the solutions with that value. Needs
 * `bound`. The result is valid until the next call. */
const int64_t *dual_value_bounds(struct dual *d, int32_t k);

#endif
