/* legs.h - is the sum of a move handed on from memory to memory (struct box_relay), or made by owners that read all
 * addends?
 *
 * A pure function of the type, the two layouts, the map and what a wire costs, so that all parts decide alike. One
 * thread. */
#ifndef RILLE_PLAN_LEGS_H
#define RILLE_PLAN_LEGS_H

#include "actors/plan/mine.h"
#include "boxing/path.h"

/* Returns the legs, in arena a, where handing on is done sooner; else NULL. Each leg lies in one memory. */
const struct box_relay *legs_of(struct arena *a, struct mines *m, const struct box_cost *cost, const struct type *t,
                                const struct layout *from, const struct layout *to);

#endif
