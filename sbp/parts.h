/* parts.h - what is possible under a memory limit in parts, each bounded by prices of its own (inside sbp/).
 *
 * One set of prices cannot tell apart what is a little below the limit from what is a little above: between them lies a
 * gap. So what is possible is split: one node has the half of its candidates that takes fewer bytes, or the other half,
 * and prices go on from where they were. What is left is bounded by the least of all, so half of the splits are of the
 * part of the least bound; the others dive from there, half by half, since small parts have the better choices.
 * Deterministic unless stop() ends it. One owner, one thread. */
#ifndef RILLE_SBP_PARTS_H
#define RILLE_SBP_PARTS_H

#include "sbp/limit.h"

struct parts {
    const struct net *net;
    struct limit *limit;
    int64_t *
        *ruled_out; /* by node, by candidate: NET_NEVER, which bound() adds to its cost, or 0; all 0 between calls */
    /* The search's own; it passes `of`. */
    int64_t (*bound)(void *of, bool *found); /* scaled, at limit.price; limit.live and choice are of what reached it */
    int64_t (*below)(void *of);              /* better choices cost less than this, scaled */
    double (*goal)(void *of, double bound);  /* what bounds are hoped to be, scaled */
    bool (*stop)(void *of);
    void (*beside)(void *of); /* after each part */
    void *of;
    const int32_t *choice; /* what reached the last bound */
};
/* bound and price: of the whole. Returns a bound on the whole, scaled: below() when nothing better is possible. */
int64_t parts_bound(const struct parts *p, int64_t bound, const int64_t *price);

#endif
