/* fusion_groups.h - the nodes of a program that one task would compute if their layouts agreed (internal to
 * actors/plan).
 *
 * A planner's memory model follows from it: a chain is computed at its last node, so its inputs live until then, its
 * stored results appear only then, and intermediate results need no registers. The rules are those of fusion.c. Arrays
 * are allocated in the caller's arena; one thread. */
#ifndef RILLE_PLAN_FUSION_GROUPS_H
#define RILLE_PLAN_FUSION_GROUPS_H

#include "actors/plan/model/program.h"

struct fusion_groups {
    const int32_t *end; /* by node: last node of the chain; a single node: itself */
    const bool *inner;  /* by node: no reader is outside the chain, and no register holds the result */
    const bool *early;  /* by node: a pending reduction in its results may be summed right after it (hops.c) */
};
void fusion_groups_find(const struct program *p, struct arena *a, struct fusion_groups *t);

#endif
