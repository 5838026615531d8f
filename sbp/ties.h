/* ties.h - of choices that cost the same, the one that sends less (inside sbp/).
 *
 * Costs and bytes become one number, in which any cost outweighs all bytes that the choice at hand sends. So a search
 * begins from that choice, drops whatever costs more by itself, and what it finds is cheaper or sends less. The whole
 * of a small net is searched; in a larger one neighbourhoods are chosen anew (around.h), for a counted work. Pure and
 * deterministic, unless stop() ends it. One call, one thread. */
#ifndef RILLE_SBP_TIES_H
#define RILLE_SBP_TIES_H

#include "sbp/solve.h"

/* Makes a possible choice of a net without copies as nodes one that sends less at no greater cost, and keeps the net's
 * memory limit if the choice does. True when it changed. */
bool ties_break(const struct net *n, bool (*stop)(void *arg), void *arg, int32_t *choice);

#endif
