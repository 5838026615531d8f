/* fusion_groups.h - finds the nodes of a program that one task would compute if their layouts agreed (internal to
 * actors/plan).
 *
 * A planner's memory model uses the chains: a chain is computed at its last node. So inputs live until that node,
 * stored results appear at that node, and intermediate results need no registers. fusion.c has the rules for chains.
 * Arrays are allocated in the caller's arena; one thread. */
#ifndef RILLE_PLAN_FUSION_GROUPS_H
#define RILLE_PLAN_FUSION_GROUPS_H

#include "actors/plan/model/program.h"

struct fusion_groups {
    const int32_t *end; /* by node: last node of its chain; the node itself if it is in no chain */
    const bool *inner;  /* by node: true if only its chain reads the result, which then has no register */
    /* by node: true if partial sums among its results may be reduced right after the node (hops.c) */
    const bool *early;
};
void fusion_groups_find(const struct program *p, struct arena *a, struct fusion_groups *t);

#endif
