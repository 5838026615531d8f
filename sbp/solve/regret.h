/* regret.h - regrets: bounds on the cost increase if a node takes another candidate (inside sbp/).
 *
 * Lower bounds: on the folded network, by a dual and by min-marginals with tables of bounded size (margin.h), up to
 * the cost of the dearest known plan for any candidate. Upper bounds: to find a plan with a candidate, the network
 * keeps only the values whose own lower bound is below a known plan. That network is small, and its search continues
 * from the dual's messages. A plan is an upper bound for every candidate in it. For nets without an effective memory
 * limit. One owner, one thread. */
#ifndef RILLE_SBP_REGRET_H
#define RILLE_SBP_REGRET_H

#include "sbp/net/fold.h"
#include "sbp/solve/solve.h"

struct regrets {
    const struct net *net;
    const struct solved *solved;
    const struct solve_options *o;
    int64_t *const *low, *const *high; /* results, owned by the caller: by node, by candidate */
    bool begun;                        /* false: time ran out before the start */
    struct folded folded;              /* with the dual's messages */
    int64_t **least;                   /* by folded variable, by value: lower bound on plans with this value, scaled */
    int32_t *of;                       /* by node: index of its entry in folded.node; -1: folding fixed its candidate */
    int32_t *choice, *value;           /* scratch: by node; by variable */
    uint8_t *keep;                     /* by value: scratch */
    struct arena arena;
};
/* Sets every low[][] by the dual; the caller fills high. */
void regrets_begin(struct regrets *r, const struct net *n, const struct solved *s, const struct solve_options *o,
                   int64_t *const *low, int64_t *const *high);
void regrets_end(struct regrets *r);
/* Reports a known choice: lowers high of its candidates to its cost. */
void regrets_offer(struct regrets *r, const int32_t *choice, int64_t cost);
/* Finds the best plan with each candidate, cheapest regrets first, because these need the smallest searches. If
 * o->stop() ends the search, the remaining regrets have bounds only. */
void regrets_find(struct regrets *r);

#endif
