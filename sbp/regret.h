/* regret.h - how much worse the whole is at least, and at most, if a node takes another candidate (inside sbp/).
 *
 * Of the folded network a dual bounds the best plan with each value from below, and tables of a bounded size do
 * (margin.h), up to the dearest plan that is known with any candidate. To find such a plan, the network keeps of all
 * variables what it may take: values whose own bound is below a plan that is known already. What is left is small, and
 * goes on from the dual's messages. Each plan that is found is one with all of its candidates. For nets without a
 * memory limit that matters. One owner, one thread. */
#ifndef RILLE_SBP_REGRET_H
#define RILLE_SBP_REGRET_H

#include "sbp/fold.h"
#include "sbp/solve.h"

struct regrets {
    const struct net *net;
    const struct solved *solved;
    const struct solve_options *o;
    int64_t *const *low, *const *high; /* by node, by candidate: the caller's */
    bool begun;                        /* false: there was no time */
    struct folded folded;              /* with the dual's messages */
    int64_t **least;                   /* by its variable, by value: what plans with it cost at least, scaled */
    int32_t *of;                       /* by node: which of the folded network's */
    int32_t *choice, *value;           /* by node, by variable: scratch */
    uint8_t *keep;                     /* by value: scratch */
    struct arena arena;
};
/* Sets low for all, by the dual; high is the caller's to fill. */
void regrets_begin(struct regrets *r, const struct net *n, const struct solved *s, const struct solve_options *o,
                   int64_t *const *low, int64_t *const *high);
void regrets_end(struct regrets *r);
/* A choice that is known: high of all its candidates is no more than it costs. */
void regrets_offer(struct regrets *r, const int32_t *choice, int64_t cost);
/* Finds the best plan with each candidate, those that cost little more first: they leave little to be searched. What
 * o->stop() leaves is bounded. */
void regrets_find(struct regrets *r);

#endif
