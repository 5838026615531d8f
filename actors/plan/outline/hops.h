/* hops.h - finds the hops that convert operands. The outline's owner calls it, on its thread. */
#ifndef RILLE_ACTORS_PLAN_OUTLINE_HOPS_H
#define RILLE_ACTORS_PLAN_OUTLINE_HOPS_H

#include "actors/plan/outline/outline.h"

/* Finds the hops of all steps. E_SBP names the source line of the step. */
int hops_find(struct outline *o, struct atlas *at);
/* Returns the layout in which a node needs operand k; NULL: the operand is a number, or absent. */
const struct layout *hops_want(const struct prog_node *n, int k);
/* Returns the layout to which a result is converted right after it is computed, by hops of its own step; NULL:
 * the first reader converts it. A result is converted at once if it is a pending reduction, all readers need the
 * same layout, and this layout takes no more memory than the addends. Converting at once ends the life of the
 * addends early. For example, updates read gradients much later than backward computes them. */
const struct layout *hops_early(const struct outline *o, struct ref r);
/* Returns true if the type and the two layouts permit an early conversion (hops_early). */
bool hops_early_fits(const struct type *t, const struct layout *from, const struct layout *to);
/* Returns true if the results of the node may be converted early (hops_early), as far as that is known before
 * layouts are chosen. */
bool hops_early_open(const struct fusion *f, int32_t node);

#endif
