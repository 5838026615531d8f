/* pipeline.h - converts a program in micro-batches to a pipeline of virtual stages: lanes, costs and bytes held.
 *
 * Input of the pipeline simulator (pipeline_sim.h); ignores the program's own schedule. Pure; any thread; arrays are in
 * the given arena. */
#ifndef RILLE_PLAN_PIPELINE_H
#define RILLE_PLAN_PIPELINE_H

#include "actors/plan/sim/schedule_search.h"

/* Returns the lane of each stage, and the number of lanes in *nlane. */
int32_t *pipeline_lanes(const struct stages *s, int32_t *nlane, struct arena *a);
/* Fills the pipeline, which borrows the stages. costs: NULL: estimated. */
void pipeline_find(struct pipeline *l, const struct program *p, const struct stages *s,
                   const struct schedule_search_costs *costs, struct arena *a);
/* Returns the turns of the program's priority rule. */
struct pipeline_sim_rule pipeline_rule(const struct program *p, const struct stages *s, struct arena *a);
/* Returns a lower bound of the time of any schedule (lower_bound.h). Links must be sorted and point to later stages. */
int64_t pipeline_lower_bound(const struct pipeline *l);

#endif
