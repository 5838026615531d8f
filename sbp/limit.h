/* limit.h - prices of memory (inside sbp/).
 *
 * A Lagrangian: bytes that are live at time t cost price[t] each, and the limit itself is worth the sum of price[t] *
 * limit. Whatever the prices are, the least cost with them less that worth is a lower bound on every choice that meets
 * the limit. Prices are integers, in 2^-LIMIT_SHIFT of a scaled nanosecond a byte, so that the bound is exact. A limit
 * belongs to the search that made it, and its thread. */
#ifndef RILLE_SBP_LIMIT_H
#define RILLE_SBP_LIMIT_H

#include "sbp/net.h"

enum { LIMIT_SHIFT = 24 };

/* The same net with the times that matter alone: those at which no other time's bytes are all live too, and some choice
 * is over the limit. It shares all but nodes and tensors, which are in a. *time: the net's times, *ntime of them; 0:
 * every choice meets the limit. */
struct net *limit_times(struct arena *a, const struct net *n, int32_t **time, int32_t *ntime);

struct limit {
    const struct net *net;
    struct arena arena;
    int32_t ntime;
    int64_t *price, *sum;    /* by time; sum[t]: of prices before t */
    int64_t *live;           /* bytes at each time, of the last choice that limit_live saw */
    int32_t *first, *tensor; /* by node: its tensors that take memory */
    int64_t **extra;         /* by node, by candidate: what its bytes cost, scaled */
    /* Of the steps: */
    double best, pace;      /* the best bound so far, scaled; what part of the way to the goal a step is */
    int64_t *best_price;    /* by time: its prices */
    double *way, *best_way; /* by time: where prices are to go; from the best */
    int32_t steps, idle;
};
void limit_begin(struct limit *m, const struct net *n);
void limit_end(struct limit *m);
/* What so many bytes cost at a price, scaled; at most `most`. */
int64_t limit_worth(int64_t price, int64_t bytes, int64_t most);
/* Fills extra and returns what the limit is worth, scaled and rounded up. Halves prices too high to count with. */
int64_t limit_price(struct limit *m);
/* Fills live; returns the greatest of it. */
int64_t limit_live(struct limit *m, const int32_t *choice);
/* Of live, and the bound (scaled) that the present prices gave: prices rise where more than the limit is live and fall
 * where less is, one step of the subgradient so long that the bound would reach `goal` if the dual were a plane;
 * shorter when that has not helped for some steps (Polyak 1969). */
void limit_step(struct limit *m, double bound, double goal);

#endif
