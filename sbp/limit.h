/* limit.h - prices of memory (inside sbp/).
 *
 * A Lagrangian: bytes that are live at time t cost price[t] each, and the limit
 * itself is worth the sum of price[t] * limit. Whatever the prices are, the least
 * cost with them less that worth is a lower bound on every choice that meets the
 * limit. Prices are integers, in 2^-LIMIT_SHIFT of a scaled nanosecond a byte, so that the
 * bound is exact. */
#ifndef RILLE_SBP_LIMIT_H
#define RILLE_SBP_LIMIT_H

#include "sbp/local.h"

enum { LIMIT_SHIFT = 24 };

struct limit {
    const struct net *net;
    struct arena arena;
    int32_t ntime;
    int64_t *price, *sum; /* by time; sum[t]: of prices before t */
    int64_t *live;        /* bytes at each time, of the last choice asked */
    int64_t **extra;      /* by node, by candidate: what its bytes cost, scaled */
};
void limit_begin(struct limit *m, const struct net *n);
void limit_end(struct limit *m);
/* Fills extra and gives what the limit is worth, scaled and rounded up. */
int64_t limit_price(struct limit *m);
/* Fills live; the greatest of it. */
int64_t limit_live(struct limit *m, const int32_t *choice);
/* Prices rise where more than the limit is live and fall where less is: one step of the subgradient, so long that a
 * bound of `bound` would reach `goal` (both scaled) if the dual were a plane; `pace` of it. */
void limit_step(struct limit *m, double bound, double goal, double pace);
/* Changes nodes of a choice, those first that gain most bytes for their cost, until it meets the limit. False when it
 * gets no further. */
bool limit_repair(struct limit *m, struct local *l);

#endif
