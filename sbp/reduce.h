/* reduce.h - makes a cost function network smaller without losing its best solution (inside sbp/).
 *
 *   support   a value that some neighbour's every value forbids goes
 *   cut       an edge whose costs are a sum of one cost of each end becomes those costs
 *   out       a variable with one value, or with at most two neighbours, goes: its neighbours pay together
 *             what its best value would
 *   as        a variable that another one decides (one possible value for each of the other's) becomes part of it:
 *             chains of element-wise operators vanish without anything growing
 *   drop      a value that another one beats whatever the neighbours do goes (Goldstein 1994)
 *
 * Each step writes itself into the trail. Only the search that owns the network calls these, on its thread. */
#ifndef RILLE_SBP_REDUCE_H
#define RILLE_SBP_REDUCE_H

#include "sbp/cfn.h"

/* Reduces to the end, variables in their order. False when a variable lost its last value: there is no solution. */
bool cfn_reduce(struct cfn *c);
/* Takes those steps alone that do not depend on what a variable's values cost by themselves: support, cut, as, and out
 * for variables of one value. */
bool cfn_fold(struct cfn *c);
/* Takes support alone. False when a variable lost its last value. */
bool cfn_support(struct cfn *c);
/* Drops values that others beat, in variables of at most `most` values. True when some went. */
bool cfn_dominate(struct cfn *c, int32_t most);

#endif
