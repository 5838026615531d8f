/* ties.h - breaks ties: among choices of equal cost, prefers the one that sends fewer bytes (inside sbp/).
 *
 * Cost and bytes become one number (lexicographic order), in which any cost outweighs all bytes of the current
 * choice. A search from this choice drops values that cost more by themselves; a result is cheaper or sends less. A
 * small net is searched completely; in a larger one, large neighbourhood search (around.h) runs for a counted amount
 * of work. Pure and deterministic, unless stop() ends it. One call, one thread. */
#ifndef RILLE_SBP_TIES_H
#define RILLE_SBP_TIES_H

#include "sbp/net/options.h"

/* Reduces the bytes that a possible choice sends, at no greater cost. The net must not have copies as nodes. A
 * choice that meets the net's memory limit still does afterwards. Returns true if the choice changed. */
bool ties_break(const struct net *n, bool (*stop)(void *arg), void *arg, int32_t *choice);

#endif
