/* merge.h - a net under a memory limit, merged into one of fewer nodes and times (inside sbp/).
 *
 * Folding (fold.h) leaves a few variables that decide all nodes. Each variable becomes a node with the bytes of the
 * nodes it decides. Many times are then dominated (for every choice, another time has at least as many live bytes)
 * and are removed. Choices of the two nets correspond, have the same cost, and meet the limit together. One owner,
 * one thread. */
#ifndef RILLE_SBP_MERGE_H
#define RILLE_SBP_MERGE_H

#include "sbp/net/fold.h"

struct merged {
    struct folded folded;
    struct net net;
    int32_t *time, ntime; /* by time of `net`: the corresponding time of the original net */
    struct arena arena;
};
/* Returns false if no choice is possible. n must have only the times that matter (limit_times). */
bool merge_begin(struct merged *m, const struct net *n);
void merge_end(struct merged *m);
/* Translates a choice of m->net into a candidate for each node of the original net. */
void merge_choice(struct merged *m, const int32_t *choice, int32_t *whole);
/* Translates a possible choice of the original net. Returns false if folding dropped the choice. */
bool merge_find(const struct merged *m, const int32_t *whole, int32_t *choice);

#endif
