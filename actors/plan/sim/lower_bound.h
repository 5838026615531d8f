/* lower_bound.h - computes a lower bound of the time of any schedule, whatever memory it uses.
 *
 * The head of an act is the least time before it: the time that the producers of its data need. The tail of an
 * act is the least time after it: the time that the consumers of its result need. A lane runs one act at a time.
 * So for any subset of a lane's acts, a step takes at least the least head in the subset, plus the sum of the
 * acts' times, plus the least tail in the subset. The functions are pure and may run on any thread. */
#ifndef RILLE_PLAN_LOWER_BOUND_H
#define RILLE_PLAN_LOWER_BOUND_H

#include "actors/plan/sim/plan_sim.h"

/* Acts of a lane with equal heads and tails. work: sum of the durations of these acts. All fields are times in ns. */
struct lower_bound_acts {
    int64_t head, work, tail;
};
/* Returns the largest bound over all subsets of a lane's acts, ns. Sorts acts[] and overwrites the `work` of its
 * entries. */
int64_t lower_bound_of_lane(struct lower_bound_acts *acts, int32_t n);

/* Returns a lower bound for a plan, ns, from the times of its acts, simulated or measured. Each device's streams
 * are independent lanes. Only data edges order acts: control edges, register reuse and memory sharing belong to
 * the schedule. */
int64_t lower_bound_of_plan(const struct plan *p, const struct act_time *act, int64_t nact);

#endif
