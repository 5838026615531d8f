/* deal.h - decides which ranks reduce and send the elements of one cell: the core of a move.
 *
 * A cell is the intersection of a source tile and a destination tile. All elements of a cell have in common:
 * - They are sums of the same p addends. (If the source has no P, p is 1.)
 * - An addend is stored on one or more source ranks, its holders.
 * - The ranks that need the elements form q groups. All members of a group get one value.
 * If the destination has no P, there is one group, and its value is the complete sum. If the destination has P,
 * there are several groups, and the sum of their values is the complete sum.
 *
 * A deal assigns each addend to a group so that as little as possible is sent:
 * - A group without addends gets the identity (0 for a sum). That takes no transmission.
 * - A group with one addend copies it. Each member that does not hold the addend receives it once.
 * - A group with k > 1 addends reduces them on one member, the owner. That takes k + members - 2
 *   transmissions, or one more if no member holds an addend. This is the minimum, because k - 1
 *   transmissions precede the first complete sum, and each further member receives the sum once.
 * In the last case, the first k - 1 transmissions have the width of an addend. The others have the width of the
 * group's value, because a sum of bf16 or f16 addends is f32 until it is complete.
 *
 * The function that makes a deal owns it; one thread. */
#ifndef RILLE_BOXING_DEAL_H
#define RILLE_BOXING_DEAL_H

#include "boxing/grid.h"
#include "runtime/data/arena.h"

struct deal {
    const struct grid *from, *to;
    int32_t ntile;    /* number of tiles of the source layout */
    bool apart;       /* true: no device is in both placements; set only if the destination has P */
    int32_t src, dst; /* corners of the source tile and destination tile that form the cell */
    int32_t turn;     /* index of the share (slice of the cell) whose addends are being assigned */
    int32_t *give;    /* by addend: the group to which it is assigned */
    int32_t *ntaken;  /* by group: number of addends assigned to it */
    int32_t owned;    /* group whose owners (reducing ranks) are in `owner`; -1: none yet */
    bool direct;      /* result of deal_owners(): true: every member of the group computes the complete sum itself */
    int32_t nowner;
    int32_t *owner;
};

/* Initialises a deal. Allocates arrays for the addends of a cell and the members of a group in arena a. */
void deal_init(struct deal *d, struct arena *a, const struct grid *from, const struct grid *to);
/* Returns the number of shares (slices) into which a cell, the intersection of a source tile and a destination tile,
 * is divided. If several groups of receivers would be equally good for an addend, each gets one share. The number is
 * nearly always 1. */
int32_t deal_shares(const struct deal *d, int32_t src, int32_t dst);
/* Assigns the addends of one share (slice) of a cell to groups. turn: index of the share. */
void deal_cell(struct deal *d, int32_t src, int32_t dst, int32_t turn);
/* Selects the owners: the ranks that reduce for a group with several addends. owner[]: source positions of these
 * ranks; each rank reduces one share (slice) of the cell. If `direct` is set, every member reduces the cell itself,
 * which sends as much and takes one communication step less. */
void deal_owners(struct deal *d, int32_t group);
/* Computes share k of the n shares of a cell. Splits the cell along the dimension that makes the largest share
 * smallest. Returns false if the share is empty. */
bool deal_share(const struct box *cell, int ndim, int32_t n, int32_t k, struct box *share);
/* Returns the least possible bytes sent per element of a cell. Allocates nothing. */
int64_t deal_cost(const struct grid *from, const struct grid *to, int32_t src, int32_t dst);
/* Returns deal_cost() of a cell if no rank that needs the cell holds an addend of it before the move. */
int64_t deal_cost_apart(const struct grid *from, const struct grid *to);

/* Returns the replica from which a device reads addends. reader: the device's position in the source mesh. The
 * replica has the same coordinates on the source's B axes, so the device reads its own shard if possible. reader -1:
 * the device is not in the source mesh; `turn` selects a replica in round-robin order. */
int32_t deal_replica(const struct grid *from, int32_t reader, int32_t turn);
/* Returns the source position that holds an addend of the cell, in the given replica. */
int32_t deal_source(const struct deal *d, int32_t replica, int32_t addend);

#endif
