/* parts.h - branch and bound under a memory limit, with memory prices of its own in each partition (inside sbp/).
 *
 * One set of prices cannot separate choices a little below the limit from those a little above, so a duality gap
 * remains. A split gives one node the half of its candidates with fewer bytes, or the other half; prices continue
 * from their last values. The bound is the least over all open partitions, so half of the splits go to the partition
 * of the least bound. The other splits dive, half by half, because small partitions contain the better choices.
 * Deterministic unless stop() ends the search. One owner, one thread. */
#ifndef RILLE_SBP_PARTS_H
#define RILLE_SBP_PARTS_H

#include "sbp/limit/limit.h"

struct parts {
    const struct net *net;
    struct limit *limit;
    int64_t *
        *ruled_out; /* by node, by candidate: 0, or NET_NEVER, which bound() adds to the cost; all 0 between calls */
    /* Callbacks of the search; `of` is passed to each. */
    int64_t (*bound)(void *of, bool *found); /* scaled, at limit.price; sets limit.live and choice to its minimiser */
    int64_t (*below)(void *of);              /* scaled cost that a better choice must stay below */
    double (*goal)(void *of, double bound);  /* scaled bound to aim at */
    bool (*stop)(void *of);
    void (*beside)(void *of); /* called after each partition */
    void *of;
    const int32_t *choice; /* the choice that attained the last bound */
};
/* bound, price: those of the whole. Returns a scaled bound on the whole; below() if nothing better exists. */
int64_t parts_bound(const struct parts *p, int64_t bound, const int64_t *price);

#endif
