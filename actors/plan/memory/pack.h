/* pack.h - finds offsets in one arena for items with different lifetimes.
 *
 * Two items may share bytes if the last position of one item precedes the first position of the other. A periodic
 * item is written anew in each period, from its first period to its last period. The items of a group are
 * periodic, and the group works on one period at a time. So two items of a group may also share bytes if their
 * positions within a period do not overlap. Finding the least arena is NP-hard; pack_offsets() tries several
 * heuristics, keeps the best result, and stops at the lower bound, the peak of live bytes. Pure and deterministic;
 * any thread. */
#ifndef RILLE_PLAN_PACK_H
#define RILLE_PLAN_PACK_H

#include "runtime/base/base.h"

struct pack_item {
    int64_t bytes;
    int32_t first, last; /* lifetime as positions in a total order, both included; first <= last */
    /* number of the item's group; 0: the item is not periodic. An item of a group is written again in each period:
     * it lives from position `first` of the first period to position `last` of the last period */
    int32_t group;
    int64_t offset; /* result: offset, a multiple of align; 0 if bytes is 0 */
};

/* The items to pack. period: number of positions from the beginning of the first period to the beginning of the
 * last period. */
struct pack_items {
    struct pack_item *item;
    int32_t n, period;
    /* true: tries longer if no heuristic meets the bound, by placing the topmost item first, repeatedly */
    bool thorough;
};

/* Sets the offset of every item. Returns the arena's bytes. align is a power of two. */
int64_t pack_offsets(const struct pack_items *p, int64_t align);
/* Returns the peak of live bytes; each item is rounded up to align. No arena is smaller. */
int64_t pack_bound(const struct pack_items *p, int64_t align);

#endif
