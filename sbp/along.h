/* along.h - a choice made better along one mesh axis at a time (inside sbp/).
 *
 * It chooses all nodes anew at once, but each keeps what it has on all mesh axes but one: in a network of so few
 * candidates a node a search finds in moments much that it does not find in the whole. It takes axis after axis, until
 * that gains little. Where another choice leads to something better at first sight, it goes on from there. Pure; any
 * thread; deterministic unless stop() ends it. */
#ifndef RILLE_SBP_ALONG_H
#define RILLE_SBP_ALONG_H

#include "sbp/net.h"

/* choice costs *cost, below NET_NEVER; both become better or stay. other: another choice, NULL. scale: of the costs in
 * the search. False: no two axes matter, and nothing was done. */
bool along_axes(const struct net *n, int64_t scale, bool (*stop)(void *arg), void *arg, const int32_t *other,
                int32_t *choice, int64_t *cost);

#endif
