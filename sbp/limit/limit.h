/* limit.h - Lagrangian prices of memory (inside sbp/).
 *
 * Each byte that is live at time t costs price[t]. The worth of the limit is the sum over t of price[t] * limit: the
 * cost of bytes that use the whole limit at each time. For any prices, the least cost with these
 * prices minus the limit's worth is a lower bound on the cost of all choices within the limit. Prices are integers,
 * in 2^-LIMIT_SHIFT scaled nanoseconds per byte, so the bound is exact. A struct limit belongs to one search and its
 * thread. */
#ifndef RILLE_SBP_LIMIT_H
#define RILLE_SBP_LIMIT_H

#include "sbp/net/net.h"

enum { LIMIT_SHIFT = 24 };

/* Returns the net without converted copies and with only the relevant times. A time is relevant if a choice may
 * exceed the limit at this time, and if no other time has the same live tensors and more. Nodes and tensors are
 * allocated in a; everything else is shared with n. *time: the *ntime relevant times of n; *ntime 0: every choice is
 * within the limit, without copies. */
struct net *limit_times(struct arena *a, const struct net *n, int32_t **time, int32_t *ntime);

/* Returns a lower bound on the peak of every choice: the peak if each value has its fewest bytes, independently of
 * the other values. */
int64_t limit_least_peak(const struct net *n);

struct limit {
    const struct net *net;
    struct arena arena;
    int32_t ntime;
    int64_t *price, *sum; /* by time: price of a byte; sum[t]: sum of the prices of times before t */
    int64_t *live;        /* by time: live bytes of the last choice passed to limit_live */
    /* tensors with bytes that node i makes: tensor[first[i]] to tensor[first[i + 1] - 1] */
    int32_t *first, *tensor;
    int64_t **extra; /* by node, by candidate: cost of the candidate's bytes at the current prices, scaled */
    /* state of the subgradient steps */
    /* best: the best bound so far, scaled; pace: step length as a fraction of the distance to the goal */
    double best, pace;
    int64_t *best_price;    /* by time: prices of the best bound */
    double *way, *best_way; /* way: step direction, by time; best_way: the direction at the best bound */
    int32_t steps, idle;
};
void limit_begin(struct limit *m, const struct net *n);
void limit_end(struct limit *m);
/* Returns the scaled cost of `bytes` at a price, or `most` if that is less. */
int64_t limit_worth(int64_t price, int64_t bytes, int64_t most);
/* Fills in `extra` from the prices. Returns the limit's worth (the sum of the prices times the limit), scaled and
 * rounded up. Halves the prices first if sums would overflow. */
int64_t limit_price(struct limit *m);
/* Fills in `live` for a choice, and returns its maximum. */
int64_t limit_live(struct limit *m, const int32_t *choice);
/* Takes a subgradient step from `live` and `bound`, the scaled bound at the current prices. The price of a time
 * rises if `live` at the time exceeds the limit, and falls otherwise. The step has the length that would raise the
 * bound to `goal` if the dual function were linear (Polyak 1969). If steps bring no gain, the length shrinks. */
void limit_step(struct limit *m, double bound, double goal);

#endif
