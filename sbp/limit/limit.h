/* limit.h - Lagrangian prices of memory (inside sbp/).
 *
 * A byte live at time t costs price[t]; the limit itself is worth the sum of price[t] * limit. For any prices, the
 * least priced cost minus that worth is a lower bound on all choices within the limit. Prices are integers, in
 * 2^-LIMIT_SHIFT scaled nanoseconds per byte, so the bound is exact. A limit belongs to the search that made it, and
 * its thread. */
#ifndef RILLE_SBP_LIMIT_H
#define RILLE_SBP_LIMIT_H

#include "sbp/net/net.h"

enum { LIMIT_SHIFT = 24 };

/* Returns the net without converted copies, with only the times that matter: a choice may exceed the limit then, and
 * the live set is maximal (no subset of another time's). Shares everything but nodes and tensors, which are allocated
 * in a. *time: the *ntime remaining times of n; *ntime 0: every choice meets the limit, copies apart. */
struct net *limit_times(struct arena *a, const struct net *n, int32_t **time, int32_t *ntime);

/* Returns a lower bound on the peak of every choice: values are counted independently, each with its fewest bytes. */
int64_t limit_least_peak(const struct net *n);

struct limit {
    const struct net *net;
    struct arena arena;
    int32_t ntime;
    int64_t *price, *sum;    /* by time: price of a byte; sum[t]: prices before t */
    int64_t *live;           /* bytes at each time, of the last choice passed to limit_live */
    int32_t *first, *tensor; /* by node: tensors with bytes */
    int64_t **extra;         /* by node, by candidate: priced cost of its bytes, scaled */
    /* State of the subgradient steps: */
    double best, pace;      /* the best bound so far, scaled; step length as a fraction of the distance to the goal */
    int64_t *best_price;    /* by time: prices of the best bound */
    double *way, *best_way; /* by time: current step direction; direction at the best bound */
    int32_t steps, idle;
};
void limit_begin(struct limit *m, const struct net *n);
void limit_end(struct limit *m);
/* Returns the scaled cost of so many bytes at a price; at most `most`. */
int64_t limit_worth(int64_t price, int64_t bytes, int64_t most);
/* Fills `extra` from the prices. Returns the worth of the limit, scaled and rounded up. First halves prices that
 * would overflow. */
int64_t limit_price(struct limit *m);
/* Fills `live` and returns its maximum. */
int64_t limit_live(struct limit *m, const int32_t *choice);
/* Takes a subgradient step from `live` and `bound`, the scaled bound at the present prices. Prices rise at times
 * over the limit and fall at times under it. The step is as long as would raise the bound to `goal` if the dual
 * function were linear (Polyak 1969), and is shortened after some steps without gain. */
void limit_step(struct limit *m, double bound, double goal);

#endif
