/* collective.h - recognises moves that a library can do with one collective in each group of ranks.
 *
 * The layout changes along some mesh axes. Positions that differ only along these axes form a group. A rank is the
 * index of a position in its group, in mesh order. A block is the data that one rank sends to another. Libraries
 * move dense blocks of one length, in rank order, and do not change the dtype. If the blocks of a shard are not
 * stored like this, or the result has another dtype, the caller packs the blocks before the collective and unpacks
 * them afterwards. box_plan() makes all other moves. Pure; any thread. */
#ifndef RILLE_BOXING_COLLECTIVE_H
#define RILLE_BOXING_COLLECTIVE_H

#include "runtime/device/communicator.h"
#include "runtime/tensor/layout.h"

struct collective {
    uint8_t verb, reduce; /* verb: COLLECT_ constant: all-reduce, reduce-scatter, all-gather or all-to-all */
    uint8_t dtype, gives; /* dtype: dtype of the transfer and of the reduction; gives: dtype of the result */
    /* packs: the blocks to send are not contiguous in order; unpacks: the received blocks are not contiguous in
     * order, or the result has another dtype */
    bool packs, unpacks;
    uint32_t axes;        /* mesh axes of a group, as bits */
    int32_t size;         /* number of ranks per group */
    int32_t nsent, ncame; /* numbers of blocks that a rank sends (nsent) and receives (ncame): 1 or `size` */
};

/* Returns true if the move is a collective. Float reductions may differ in bits from box_plan(). A reduction for
 * which libraries treat NaN or bool values differently is no collective. */
bool collective_of(const struct type *t, const struct layout *from, const struct layout *to, struct collective *out);
/* Returns the number of elements per block in the group of a position. */
int64_t collective_numel(const struct collective *c, const struct type *t, const struct layout *from,
                         const struct layout *to, int32_t pos);
/* Compute a block in global positions. collective_sent: block i < nsent that a position sends. collective_came:
 * block i < ncame that a position receives. */
void collective_sent(const struct collective *c, const struct type *t, const struct layout *from,
                     const struct layout *to, int32_t pos, int32_t i, struct box *out);
void collective_came(const struct collective *c, const struct type *t, const struct layout *from,
                     const struct layout *to, int32_t pos, int32_t i, struct box *out);
/* Returns the rank of a position in its group; *first: the position with rank 0. */
int32_t collective_comm_rank(const struct collective *c, const struct place *p, int32_t pos, int32_t *first);
/* Returns the position of a rank in the group whose rank 0 is `first`. */
int32_t collective_pos(const struct collective *c, const struct place *p, int32_t first, int32_t comm_rank);

#endif
