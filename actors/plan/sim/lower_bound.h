/* lower_bound.h - computes a lower bound of the time of any schedule, whatever memory it uses.
 *
 * The producers of an act's data must finish before the act: the least time they need is the act's head. The
 * consumers must run after the act: the least time they need is its tail. A lane runs one act at a time. For any
 * subset of a lane's acts, a step takes at least the least head, plus the sum of the acts' times, plus the least
 * tail. Pure; any thread. */
#ifndef RILLE_PLAN_LOWER_BOUND_H
#define RILLE_PLAN_LOWER_BOUND_H

#include "actors/plan/sim/plan_sim.h"

/* Acts of a lane that have equal heads and tails. work: sum of their times. All times are in nanoseconds. */
struct lower_bound_acts {
    int64_t head, work, tail;
};
/* Returns the largest bound over all subsets of a lane's acts, ns. Sorts acts[] and overwrites the `work` of its
 * entries. */
int64_t lower_bound_of_lane(struct lower_bound_acts *acts, int32_t n);

/* Returns a lower bound for a plan whose acts took these times, simulated or measured, on the lanes of independent
 * devices. Only data edges order acts, because register reuse and memory sharing belong to the schedule. */
int64_t lower_bound_of_plan(const struct plan *p, const struct act_time *act, int64_t nact);

#endif
