/* pipeline.h - converts a program with micro-batches to a pipeline of virtual stages: lanes, costs and bytes held.
 *
 * The result is the input of the pipeline simulator (pipeline_sim.h); the program's own schedule is ignored. Pure;
 * any thread; arrays are in the given arena. */
#ifndef RILLE_PLAN_PIPELINE_H
#define RILLE_PLAN_PIPELINE_H

#include "actors/plan/sim/schedule_search.h"

/* Returns the lane of each stage (stages that share devices have one lane), and the number of lanes in *nlane. */
int32_t *pipeline_lanes(const struct stages *s, int32_t *nlane, struct arena *a);
/* Fills in the pipeline, which refers to the stages. costs: NULL: costs are estimated. */
void pipeline_find(struct pipeline *l, const struct program *p, const struct stages *s,
                   const struct schedule_search_costs *costs, struct arena *a);
/* Returns the program's priority rule as turns of each stage's acts. */
struct pipeline_sim_rule pipeline_rule(const struct program *p, const struct stages *s, struct arena *a);
/* Returns a lower bound of the time of any schedule (lower_bound.h). Links must be sorted and point to later stages. */
int64_t pipeline_lower_bound(const struct pipeline *l);

#endif
