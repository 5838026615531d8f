/* border.h - reads of a move that cross the border of a set of ranks. Pure; any thread. */
#ifndef RILLE_BOXING_BORDER_H
#define RILLE_BOXING_BORDER_H

#include "boxing/box.h"

/* The border of a set of ranks: the reads that cross it. `in`: reads from ranks outside the set; `out`: reads by
 * ranks outside the set. Each list is sorted by (to_stage, to, from_stage, from, slice), stages first, without
 * duplicates. For two sets A and B, A's reads from B (in A's `in`) equal B's reads by A (in B's `out`), entry by
 * entry. Time and memory are proportional to the data that these ranks exchange. */

/* Returns true if a read between two ranks of the set must be sent, for instance because the ranks are in different
 * memory spaces. `in` also lists such reads; `out` does not. Arguments are mesh positions; `to` is in the source
 * mesh if the read fills a stage. Function NULL: ranks of the set read each other's memory in place. */
typedef bool box_far_fn(const struct box_plan *p, bool to_stage, int32_t to, int32_t from);
struct box_border {
    int32_t nin, nout;
    struct box_read *in, *out;
};
void box_border(struct arena *a, const struct box_plan *p, const struct box_ranks *mine, box_far_fn *far,
                struct box_border *out);

#endif
