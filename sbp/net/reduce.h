/* reduce.h - reductions of a cost function network that keep an optimal solution (inside sbp/).
 *
 *   support   drop a value that every value of some neighbour forbids (arc consistency)
 *   cut       replace an edge by unary costs, if the edge's costs are sums of a cost of each end
 *   out       eliminate a variable with one value, or with at most two neighbours: the cost of the variable's
 *             best value is added to the costs of the neighbours' values (bucket elimination)
 *   as        replace variable v by variable u, if each value of u leaves v a single possible value:
 *             so chains of element-wise operators vanish, while tables grow little
 *   drop      drop a value if another value of the variable costs no more for all values of the neighbours
 *             (dead-end elimination: Goldstein 1994)
 *
 * Each step is recorded in the trail. Only the search that owns the network calls these functions, on its thread. */
#ifndef RILLE_SBP_REDUCE_H
#define RILLE_SBP_REDUCE_H

#include "sbp/net/cfn.h"

/* Applies the reductions above, variable by variable, until none applies. Returns false if a variable lost its last
 * value: there is no solution. */
bool cfn_reduce(struct cfn *c);
/* Applies only the reductions that do not depend on unary costs: support, cut, as, and out for variables with one
 * value. */
bool cfn_fold(struct cfn *c);
/* Removes dominated values of variables that have at most `most` values. Returns true if any value was removed. */
bool cfn_dominate(struct cfn *c, int32_t most);

#endif
