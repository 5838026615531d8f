/* regret.h - computes regrets: bounds on the increase of the cost if a node takes another candidate (inside sbp/).
 *
 * Lower bounds come from a dual of the folded network, and from min-marginals with tables of bounded size
 * (margin.h). Tables are capped at the cost of the most expensive plan that is known for any candidate, because
 * higher costs do not affect a regret. Upper bounds come from plans. To find a plan with a given candidate, the
 * network keeps only values whose own lower bound is below the cost of a known plan. That network is small, and its
 * search continues from the dual's messages. Each plan is an upper bound for all candidates in it. For nets without
 * an effective memory limit. One owner, one thread. */
#ifndef RILLE_SBP_REGRET_H
#define RILLE_SBP_REGRET_H

#include "sbp/net/fold.h"
#include "sbp/solve/solve.h"

struct regrets {
    const struct net *net;
    const struct solved *solved;
    const struct solve_options *o;
    /* lower and upper bounds on the regret, by node and candidate, ns; the caller owns the arrays */
    int64_t *const *low, *const *high;
    bool begun;           /* false: the time ran out before regrets_begin() could start */
    struct folded folded; /* folded network, with the dual's messages */
    /* by folded variable, by value: lower bound on plans with this value, scaled */
    int64_t **least;
    /* by node: index of the node's entry in folded.node; -1: folding left the node a single candidate */
    int32_t *of;
    int32_t *choice, *value; /* work space: choice is indexed by node, value by variable */
    uint8_t *keep;           /* work space, indexed by value of a variable */
    struct arena arena;
};
/* Sets all lower bounds (`low`), by the dual. The caller sets all upper bounds (`high`). */
void regrets_begin(struct regrets *r, const struct net *n, const struct solved *s, const struct solve_options *o,
                   int64_t *const *low, int64_t *const *high);
void regrets_end(struct regrets *r);
/* Uses a known choice: lowers the upper bounds (`high`) of the choice's candidates to the difference between
 * `cost` and the cost of the solved choice. */
void regrets_offer(struct regrets *r, const int32_t *choice, int64_t cost);
/* Computes the exact regret (increase of the least cost) of each candidate of each node, by a search for the best
 * plan with this candidate. Searches for candidates with a small upper bound first, because these searches are the
 * shortest. If o->stop() ends the search, the other candidates keep a lower and an upper bound. */
void regrets_find(struct regrets *r);

#endif
