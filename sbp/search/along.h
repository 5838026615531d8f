/* along.h - improves a choice along one mesh axis at a time (inside sbp/).
 *
 * Each step chooses all nodes again at once, but a node may change on one mesh axis only. This restricted network
 * has few candidates per node, so a search soon finds improvements that it misses in the whole network. The axes are
 * taken in turn until the gain is small. If another choice leads to a better one at first, the search continues from
 * that choice. Pure; any thread; deterministic unless stop() ends it. */
#ifndef RILLE_SBP_ALONG_H
#define RILLE_SBP_ALONG_H

#include "sbp/net/net.h"

/* Improves `choice`, whose cost is *cost < NET_NEVER, or leaves both as they are. other: a second choice to start
 * from; NULL: none. scale: factor of the search's costs. Returns false, with nothing done, if fewer than two axes
 * matter. */
bool along_axes(const struct net *n, int64_t scale, bool (*stop)(void *arg), void *arg, const int32_t *other,
                int32_t *choice, int64_t *cost);

#endif
