/* along.h - improves a choice along one mesh axis at a time (inside sbp/).
 *
 * Each step chooses candidates for all nodes again, but each node may change only its entries on one mesh axis. The
 * network restricted in this way has few candidates per node, so a search soon finds improvements that a search of
 * the complete network misses. The steps cycle through the axes until the gain is small. There may be a second start
 * choice: after a few rounds from both, the search continues with the better one. Pure; any thread; deterministic
 * unless stop() ends it. */
#ifndef RILLE_SBP_ALONG_H
#define RILLE_SBP_ALONG_H

#include "sbp/net/net.h"

/* Improves `choice`, whose cost is *cost < NET_NEVER, or leaves both unchanged. other: second choice to start from;
 * NULL: none. scale: factor by which the search multiplies costs. Returns false, without changes, if the candidates
 * differ on fewer than two axes. */
bool along_axes(const struct net *n, int64_t scale, bool (*stop)(void *arg), void *arg, const int32_t *other,
                int32_t *choice, int64_t *cost);

#endif
