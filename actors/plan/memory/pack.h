/* pack.h - offsets in one arena for items with different lifetimes.
 *
 * Two items may share bytes if the last position of one precedes the first position of the other. A periodic item is
 * written anew in each period, from its first period to its last. Groups occupy one period at a time, so items of a
 * group also share bytes if their positions within a period do not overlap. Finding the least arena is NP-hard;
 * pack_offsets() tries several heuristics, keeps the best result, and stops at the lower bound, the peak of live
 * bytes. Pure and deterministic; any thread. */
#ifndef RILLE_PLAN_PACK_H
#define RILLE_PLAN_PACK_H

#include "runtime/base/base.h"

struct pack_item {
    int64_t bytes;
    int32_t first, last; /* positions in a total order, both included; first <= last */
    int32_t group; /* 0: not periodic. Otherwise live from position `first` of the first period to `last` of the last */
    int64_t offset; /* result, a multiple of align; 0 when bytes is 0 */
};

/* The last period begins `period` positions after the first. */
struct pack_items {
    struct pack_item *item;
    int32_t n, period;
    bool thorough; /* if no heuristic meets the bound, retries repeatedly with the topmost items placed first */
};

/* Sets every offset. Returns the bytes of the arena. align is a power of two. */
int64_t pack_offsets(const struct pack_items *p, int64_t align);
/* Returns the peak of live bytes, each item rounded up to align. No arena is smaller. */
int64_t pack_bound(const struct pack_items *p, int64_t align);

#endif
