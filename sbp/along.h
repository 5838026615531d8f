/* along.h - a choice made better along one mesh axis at a time (inside sbp/).
 *
 * All nodes are chosen anew at once, but each keeps what it has on all mesh axes but
 * one: a network of few candidates a node, in which much is found in moments where
 * in the whole nothing is. Axis after axis, until that gains little. Pure; deterministic
 * unless stopped. */
#ifndef RILLE_SBP_ALONG_H
#define RILLE_SBP_ALONG_H

#include "sbp/net.h"

/* choice costs *cost, which is possible; both become better or stay. scale: of the costs in the search. */
void along_axes(const struct net *n, int64_t scale, bool (*stop)(void *arg), void *arg, int32_t *choice, int64_t *cost);

#endif
