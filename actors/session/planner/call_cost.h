/* call_cost.h - cost of each written call of a planned step (replan.h), with its gradient and nearby nodes.
 *
 * A planner prices a step, not a call: another form of a call also changes the layouts of its neighbours and the
 * moves for them. So each node of the solved net belongs to the nearest call, counted in tensors; if several are
 * nearest, to the first. A move belongs to the reader of the moved value. Nodes that no call made belong to the same
 * call in each round. So rounds can be compared call by call, and the costs of all calls sum to the cost of the
 * step. Pure, any thread. */
#ifndef RILLE_SESSION_CALL_COST_H
#define RILLE_SESSION_CALL_COST_H

#include "actors/plan/assign/assign.h"

/* Sets, by call (0: nodes without a call), the cost in ns of step p with the layouts of a; ns has ncall + 1
 * elements. */
void call_cost_times(const struct assigned *a, const struct program *p, int32_t ncall, int64_t *ns);
/* Sets, by call, bytes on the fullest rank at the peak; bytes has ncall + 1 elements. */
void call_cost_bytes(const struct assigned *a, const struct program *p, int32_t ncall, int64_t *bytes);

#endif
