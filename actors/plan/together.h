/* together.h - which nodes of a program one task would compute, were their layouts to agree (inside actors/plan).
 *
 * What a planner counts of memory follows from it: a chain is computed where its last node stands, so all that it reads
 * is there until then, what it shows comes only then, and no register holds what is between. The rules are fuse.c's.
 * Arrays are the arena's that the caller gives; one thread. */
#ifndef RILLE_PLAN_TOGETHER_H
#define RILLE_PLAN_TOGETHER_H

#include "actors/plan/program.h"

struct together {
    const int32_t *end; /* by node: the last of its chain, itself when it is alone */
    const bool *inner;  /* by node: its readers are in its chain, and no register holds its result */
    const bool *early;  /* by node: of what it owes the sum may be made right behind it (hops.c) */
};
void together_find(const struct program *p, struct arena *a, struct together *t);

#endif
