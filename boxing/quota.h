/* quota.h - limits the bytes that each rank receives on a path: no rank may receive more than in the direct
 * exchange.
 *
 * A quota stores the bytes that each rank receives in the direct exchange. At an intermediate layout, two numbers
 * are added for each rank: the bytes received so far, and a lower bound of the bytes still to receive. So a path is
 * rejected as soon as its excess is certain, not only at its end. Only the ranks in the quota's list are checked.
 *
 * The function that makes a quota owns it; one thread. */
#ifndef RILLE_BOXING_QUOTA_H
#define RILLE_BOXING_QUOTA_H

#include "runtime/data/hash.h"
#include "runtime/tensor/layout.h"

/* maximum number of ranks for which tiles are checked; on larger meshes, ranks are checked only one by one */
enum { QUOTA_TILES = 1 << MAX_AXIS };

struct quota {
    struct arena *arena; /* memory of the cache and the lists */
    const struct type *type;
    const struct layout *to;
    int32_t nrank;
    const int32_t *rank;    /* checked ranks, ascending; all ranks if the mesh has at most QUOTA_TILES */
    const int64_t *most;    /* by index of rank: bytes received in the direct exchange */
    struct hash_table room; /* cache of limits by layout */
};

/* Returns false if a path will certainly exceed the quota, given its current layout and the bytes received so far.
 * Meaningful only for paths that send the least bytes over all ranks. */
bool quota_lasts(struct quota *q, const struct layout *at, const int64_t *received);

#endif
