/* ways.h - what each written call of a planned step costs (rounds.h): with its gradient, and with all that is nearer to
 * it than to other calls.
 *
 * A planner prices a step, not a call: written otherwise a call also changes how its neighbours lie, and what is moved
 * for them. So each node of the solved net belongs to the call from which the fewest tensors lead to it, of several to
 * the first; a move belongs to who reads what it moved. What no call made belongs to the same call in each round, so
 * rounds are compared call by call, and what all belong to sums to what the step costs. Pure, any thread. */
#ifndef RILLE_SESSION_WAYS_H
#define RILLE_SESSION_WAYS_H

#include "actors/plan/assign.h"

/* Gives, by call (0: what no call leads to), nanoseconds of a step p that was laid out as in a; ns has ncall + 1
 * elements. */
void ways_cost(const struct assigned *a, const struct program *p, int32_t ncall, int64_t *ns);
/* Gives, so too, bytes on the fullest rank when most are held. */
void ways_held(const struct assigned *a, const struct program *p, int32_t ncall, int64_t *bytes);

#endif
