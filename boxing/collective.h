/* collective.h - recognises moves that are one collective of a library, executed by every group of some mesh axes.
 *
 * A group is a set of positions that differ along these axes only; a rank is the rank of a position in its group, in
 * mesh order. A block is the data between two ranks: libraries move dense blocks of one length, in rank order, and
 * change no dtype. If a shard's blocks are not stored like that, or the result has another dtype, the caller of the
 * library packs before and unpacks after. box_plan() makes the remaining moves. Pure; any thread. */
#ifndef RILLE_BOXING_COLLECTIVE_H
#define RILLE_BOXING_COLLECTIVE_H

#include "runtime/device/communicator.h"
#include "runtime/tensor/layout.h"

struct collective {
    uint8_t verb, reduce; /* as in communicator.h: P -> B, P -> S, S -> B, S(i) -> S(j) */
    uint8_t dtype, gives; /* dtype of the transfer and the reduction; dtype of the result */
    bool packs, unpacks;  /* blocks not contiguous in order; unpacks: or another dtype */
    uint32_t axes;        /* bit mask of mesh axes */
    int32_t size;         /* ranks per group */
    int32_t nsent, ncame; /* blocks that a rank sends and receives: 1 or size */
};

/* Returns false if the move is no collective. Float reductions may differ in bits from box_plan(). Reductions in
 * which a library's NaN or bool semantics differ from ours are no collectives. */
bool collective_of(const struct type *t, const struct layout *from, const struct layout *to, struct collective *out);
/* Returns the elements per block in the group of a position. */
int64_t collective_numel(const struct collective *c, const struct type *t, const struct layout *from,
                         const struct layout *to, int32_t pos);
/* Compute, in global positions, block i < nsent that a position sends; block i < ncame that a position receives. */
void collective_sent(const struct collective *c, const struct type *t, const struct layout *from,
                     const struct layout *to, int32_t pos, int32_t i, struct box *out);
void collective_came(const struct collective *c, const struct type *t, const struct layout *from,
                     const struct layout *to, int32_t pos, int32_t i, struct box *out);
/* Returns the rank of a position; *first: the position with rank 0 of its group. */
int32_t collective_comm_rank(const struct collective *c, const struct place *p, int32_t pos, int32_t *first);
/* Returns the position of a rank in the group whose rank 0 is `first`. */
int32_t collective_pos(const struct collective *c, const struct place *p, int32_t first, int32_t comm_rank);

#endif
