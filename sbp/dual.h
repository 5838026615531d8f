/* dual.h - a lower bound on every solution of a cost function network, and what it rules out (inside sbp/).
 *
 * Each edge hands cost to the values of its ends by messages: the costs of all solutions stay, but the sum of every
 * variable's and every edge's least entry rises, and no solution is below it. A sweep sends messages in the order of
 * the variables and back (TRW-S: Kolmogorov 2006), in integers, so that the bound is exact whatever it rounds. While it
 * sends, it chooses values one after the other: solutions, and so upper bounds, for nothing. A dual belongs to the
 * search that made it, and its thread. */
#ifndef RILLE_SBP_DUAL_H
#define RILLE_SBP_DUAL_H

#include "sbp/cfn.h"

struct dual_end_of;
struct dual {
    struct cfn *c;
    int32_t n, *order; /* the variables left, by rank */
    int32_t *first;    /* by place in that order, one more: its ends of edges */
    struct dual_end_of *end;
    int64_t *messages;    /* of all ends, one after the other */
    bool pruned;          /* the network went on: it has its messages */
    int64_t *sum, *given; /* scratch, by value */
    int32_t *pick;        /* by variable: the value (index) in the solution at hand */
    int64_t bound;        /* of the whole network, its constant included */
    int64_t entries;      /* of all tables: what a sweep costs */
    int64_t nmessage;     /* numbers in messages */
};
/* The variables left, in the order of the sweeps: into order, which has room for all. Returns how many. */
int32_t dual_order(const struct cfn *c, int32_t *order);
/* Begins on a reduced network: every value is possible. Messages go on from what they are; dual_end hands them back and
 * frees the arrays. */
void dual_begin(struct dual *d, struct cfn *c);
void dual_end(struct dual *d);
/* n sweeps forth and back, at least one; pick holds a solution afterwards. */
void dual_sweep(struct dual *d, int n);
/* Sets bound, exactly. */
void dual_bound(struct dual *d);
/* Improves pick by changing one variable at a time until that gains nothing. Returns its cost. */
int64_t dual_polish(struct dual *d);
/* Drops values of which the bound says that no solution with them costs less than `below`, and writes the messages that
 * show it into the proof. Needs dual_bound. False when a variable lost its last one: there is no such solution. *gone:
 * how many went. dual_end comes next. */
bool dual_prune(struct dual *d, int64_t below, int64_t *gone);
/* A lower bound on solutions with each value of the k-th variable in that order, given bound; until the next call. */
const int64_t *dual_value_bounds(struct dual *d, int32_t k);

#endif
