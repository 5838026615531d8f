/* ties.h - breaks ties: among choices of equal cost, chooses one that sends fewer bytes (inside sbp/).
 *
 * Cost and bytes become one number in lexicographic order: any difference of cost outweighs all bytes of the current
 * choice. The search starts from the current choice, and looks for a lower number: a choice that is cheaper, or that
 * sends fewer bytes at the same cost. A small net is searched completely; in a larger net, large neighbourhood
 * search (around.h) runs for a counted amount of work. Pure and deterministic, unless stop() ends it. One call, one
 * thread. */
#ifndef RILLE_SBP_TIES_H
#define RILLE_SBP_TIES_H

#include "sbp/net/options.h"

/* Reduces the bytes that a feasible choice sends, without increasing its cost. The net must not have copies as
 * nodes. A choice within the net's memory limit stays within that limit. Returns true if the choice changed. */
bool ties_break(const struct net *n, bool (*stop)(void *arg), void *arg, int32_t *choice);

#endif
