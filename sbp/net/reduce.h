/* reduce.h - reductions of a cost function network that keep an optimal solution (inside sbp/).
 *
 *   support   drop a value that every value of some neighbour forbids (arc consistency)
 *   cut       replace an edge whose costs separate into unary costs by these
 *   out       eliminate a variable with one value, or with at most two neighbours: the neighbours together
 *             pay the cost of its best value (bucket elimination)
 *   as        substitute a variable whose value another one decides (one possible value for each of the other's):
 *             chains of element-wise operators vanish, and no table grows
 *   drop      drop a value that another one dominates for all values of the neighbours (Goldstein 1994)
 *
 * Each step is recorded in the trail. Only the search that owns the network calls these functions, on its thread. */
#ifndef RILLE_SBP_REDUCE_H
#define RILLE_SBP_REDUCE_H

#include "sbp/net/cfn.h"

/* Reduces until no reduction applies, variable by variable. Returns false if a variable lost its last value: there
 * is no solution. */
bool cfn_reduce(struct cfn *c);
/* Applies only the reductions that do not depend on unary costs: support, cut, as, and out for variables with one
 * value. */
bool cfn_fold(struct cfn *c);
/* Applies only `support`. Returns false if a variable lost its last value. */
bool cfn_support(struct cfn *c);
/* Removes dominated values of variables with at most `most` values. Returns true if any was removed. */
bool cfn_dominate(struct cfn *c, int32_t most);

#endif
