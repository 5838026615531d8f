/* collective.h - moves that are one collective of a library: all groups of some mesh axes do the same, each its own.
 *
 * A group is the positions that differ along these axes alone; a seat is a place in it, in mesh order. What goes
 * between two seats is a block: a library moves dense blocks of one length, in the order of the seats, and changes no
 * dtype. So where blocks do not lie like that in a part, or the result has another dtype, who asks a library
 * rearranges: packs before, unpacks after. Everything else is left to box_plan(). Pure; any thread. */
#ifndef RILLE_BOXING_COLLECTIVE_H
#define RILLE_BOXING_COLLECTIVE_H

#include "runtime/communicator.h"
#include "runtime/layout.h"

struct collective {
    uint8_t verb, reduce; /* as communicator.h has them: P -> B, P -> S, S -> B, S(i) -> S(j) */
    uint8_t dtype, gives; /* of what moves and is added up; of the result */
    bool packs, unpacks;  /* some part does not have its blocks one behind the other; or, of unpacks, another dtype */
    uint32_t axes;        /* of the mesh, a bit each */
    int32_t size;         /* seats of a group */
    int32_t nsent, ncame; /* blocks that a seat sends, and gets: 1 or size */
};

/* False: the move is none. A reduction's bits may be another's than of box_plan() where dtype is a float; what a
 * library makes of NaN, and of sums of truths, is not ours: those are none. */
bool collective_of(const struct type *t, const struct layout *from, const struct layout *to, struct collective *out);
/* The elements of a block of the group that a position is in. */
int64_t collective_numel(const struct collective *c, const struct type *t, const struct layout *from,
                         const struct layout *to, int32_t pos);
/* Block i, less than nsent, of what the position sends; less than ncame, of what it gets: in global positions. */
void collective_sent(const struct collective *c, const struct type *t, const struct layout *from,
                     const struct layout *to, int32_t pos, int32_t i, struct box *out);
void collective_came(const struct collective *c, const struct type *t, const struct layout *from,
                     const struct layout *to, int32_t pos, int32_t i, struct box *out);
/* The seat of a position, and the position that has seat 0 of its group. */
int32_t collective_seat(const struct collective *c, const struct place *p, int32_t pos, int32_t *first);
/* The position of a seat of the group in which `first` has seat 0. */
int32_t collective_pos(const struct collective *c, const struct place *p, int32_t first, int32_t seat);

#endif
