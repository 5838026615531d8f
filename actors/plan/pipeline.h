/* pipeline.h - a program in pieces as a pipeline of virtual stages: who does what where, how long it takes, what is
 * kept.
 *
 * For rehearsals (rehearse.h); the program's own schedule is no part of it. Pure; any thread; arrays belong to the
 * arena given. */
#ifndef RILLE_PLAN_PIPELINE_H
#define RILLE_PLAN_PIPELINE_H

#include "actors/plan/dial.h"

/* Returns the lanes of stages; counts them in *nlane. */
int32_t *pipeline_lanes(const struct stages *s, int32_t *nlane, struct arena *a);
/* costs: NULL: reckoned. The pipeline reads the stages as long as it lives. */
void pipeline_find(struct pipeline *l, const struct program *p, const struct stages *s, const struct dial_costs *costs,
                   struct arena *a);
/* Returns the turns of the program's rule. */
struct rehearsed_rule pipeline_rule(const struct program *p, const struct stages *s, struct arena *a);
/* Returns the time that no schedule of it is below (floor.h): links are sorted, and go to later stages. */
int64_t pipeline_floor(const struct pipeline *l);

#endif
