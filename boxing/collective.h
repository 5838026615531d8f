/* collective.h - moves that are one collective of a library: all groups of some mesh axes do the same, each its own.
 *
 * A group is the positions that differ along these axes alone; a seat is a place in it, in mesh order. A library moves
 * dense blocks of one length: of a part that is cut, seat i holds the i-th of `size` equal blocks of what the group has
 * together, one behind the other in memory. It changes no dtype. Everything else is left to box_plan(). Pure; any
 * thread. */
#ifndef RILLE_BOXING_COLLECTIVE_H
#define RILLE_BOXING_COLLECTIVE_H

#include "runtime/communicator.h"
#include "runtime/layout.h"

struct collective {
    uint8_t verb, reduce, dtype; /* as communicator.h has them: P -> B, P -> S, S -> B */
    uint32_t axes;               /* of the mesh, a bit each */
    int32_t size;                /* seats of a group */
};

/* False: the move is none. A reduction's bits may be another's than of box_plan() where dtype is a float; what a
 * library makes of NaN, and of sums of truths, is not ours: those are none. */
bool collective_of(const struct type *t, const struct layout *from, const struct layout *to, struct collective *out);
/* The elements of a block of the group that a position is in; COLLECT_REDUCE: of a part. */
int64_t collective_numel(const struct collective *c, const struct type *t, const struct layout *from,
                         const struct layout *to, int32_t pos);
/* The seat of a position, and the position that has seat 0 of its group. */
int32_t collective_seat(const struct collective *c, const struct place *p, int32_t pos, int32_t *first);
/* The position of a seat of the group in which `first` has seat 0. */
int32_t collective_pos(const struct collective *c, const struct place *p, int32_t first, int32_t seat);

#endif
