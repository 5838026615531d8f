/* merge.h - a net under a memory limit as a smaller one: fewer nodes, fewer times (inside sbp/).
 *
 * Folding (fold.h) leaves a few variables that decide all nodes. Each becomes one node, which takes the bytes of all
 * that it decides. Then many times are dominated: whatever is chosen, no more is live at one than at another; they go.
 * Choices of the one net are those of the other at the same cost, and meet the limit together. One owner, one thread.
 */
#ifndef RILLE_SBP_MERGE_H
#define RILLE_SBP_MERGE_H

#include "sbp/fold.h"

struct merged {
    struct folded folded;
    struct net net;
    int32_t *time, ntime; /* by time of net: which one of the whole it is */
    struct arena arena;
};
/* False: no choice is possible. n has the times that matter alone (limit_times). */
bool merge_begin(struct merged *m, const struct net *n);
void merge_end(struct merged *m);
/* What a choice of m->net means for the whole: a candidate for each node. */
void merge_choice(struct merged *m, const int32_t *choice, int32_t *whole);
/* And back, from a possible choice of the whole. False: what it has was folded away. */
bool merge_find(const struct merged *m, const int32_t *whole, int32_t *choice);

#endif
