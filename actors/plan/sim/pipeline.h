/* pipeline.h - converts a program with micro-batches to a pipeline of virtual stages: lanes, costs and bytes held.
 *
 * The pipeline is the input of the pipeline simulator (pipeline_sim.h). It does not depend on the program's
 * schedule. Pure; any thread; arrays are in the given arena. */
#ifndef RILLE_PLAN_PIPELINE_H
#define RILLE_PLAN_PIPELINE_H

#include "actors/plan/sim/schedule_search.h"

/* Returns, by stage, its lane (stages that share devices have one lane). *nlane: number of lanes. */
int32_t *pipeline_lanes(const struct stages *s, int32_t *nlane, struct arena *a);
/* Fills in the pipeline, which refers to the stages. costs: costs of the stages; NULL: costs are estimated. */
void pipeline_find(struct pipeline *l, const struct program *p, const struct stages *s,
                   const struct schedule_search_costs *costs, struct arena *a);
/* Returns the program's priority rule as a table: for each stage and phase, the turn (priority) of its acts. */
struct pipeline_sim_rule pipeline_rule(const struct program *p, const struct stages *s, struct arena *a);
/* Returns a lower bound of the time of any schedule (lower_bound.h), ns. Links must be sorted and point to later
 * stages. */
int64_t pipeline_lower_bound(const struct pipeline *l);

#endif
