/* lower_bound.h - a lower bound of the time of any schedule, whatever its memory.
 *
 * The producers of an act's data must finish before the act: their least time is the act's head. The consumers must
 * run after the act: its tail. A lane runs one act at a time. For any subset of its acts, a step takes at least the
 * least head, plus the sum of their times, plus the least tail. Pure; any thread. */
#ifndef RILLE_PLAN_LOWER_BOUND_H
#define RILLE_PLAN_LOWER_BOUND_H

#include "actors/plan/sim/plan_sim.h"

/* Acts of a lane with equal head and tail. work: total time. Nanoseconds. */
struct lower_bound_acts {
    int64_t head, work, tail;
};
/* Returns the largest bound over all subsets of a lane's acts. Sorts the acts and consumes their work. */
int64_t lower_bound_of_lane(struct lower_bound_acts *acts, int32_t n);

/* Returns the bound for a plan whose acts took these times, simulated or measured, on the lanes of independent
 * devices. Only data edges order acts: register reuse and memory sharing belong to the schedule. */
int64_t lower_bound_of_plan(const struct plan *p, const struct act_time *act, int64_t nact);

#endif
