/* pack.h - offsets in one arena for things that do not all live at the same time.
 *
 * Two items may share bytes when one's last position comes before the other's
 * first. Items that come again live from their first period to their last: those
 * of one group are in one period at a time, and share bytes as well where they do
 * not meet within it. Finding the least arena is NP-hard; this tries several good
 * ways, keeps the best, and stops when it meets the lower bound: the bytes alive at
 * the worst moment. Pure and deterministic; any thread. */
#ifndef RILLE_PLAN_PACK_H
#define RILLE_PLAN_PACK_H

#include "runtime/base.h"

struct pack_item {
    int64_t bytes;
    int32_t first, last; /* positions in a total order, both included; first <= last */
    int32_t group;       /* 0: it comes once; of a group: in the first period from first on, in the last until last */
    int64_t offset;      /* the answer, a multiple of align; 0 when bytes is 0 */
};

/* The last period begins `period` positions after the first. */
struct pack_items {
    struct pack_item *item;
    int32_t n, period;
    bool thorough; /* where no way meets the bound, what came to lie at the top is placed first, again and again */
};

/* Sets every offset; returns the bytes of the arena. align is a power of two. */
int64_t pack_offsets(const struct pack_items *p, int64_t align);
/* The bytes alive at the worst moment, each item rounded up to align: no arena is smaller. */
int64_t pack_bound(const struct pack_items *p, int64_t align);

#endif
