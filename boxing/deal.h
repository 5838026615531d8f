/* deal.h - decides which ranks reduce and send the elements of one cell: the core of a move.
 *
 * A cell is the intersection of a source tile and a destination tile. All elements of a cell have the same p
 * addends, each with its holders (source positions), and the same q groups of destination positions. All members of
 * a group get one value. There is more than one group only for a P destination: the groups' values then combine to
 * the complete value. The deal assigns each addend to a group so that transmissions are fewest:
 * - a group without addends fills itself with the identity, without a transmission;
 * - a group with one addend copies it: a member that does not hold the addend
 *   receives it once;
 * - a group with k > 1 addends reduces them at an owner. That takes k + members - 2
 *   transmissions, or one more if no member holds an addend. It is the minimum,
 *   because k - 1 transmissions precede the first complete rank, and each further
 *   member needs one afterwards.
 * The first k - 1 transmissions have the width of an addend. All others have the width of the group's value, because
 * a sum of halves is f32 until it is complete.
 *
 * The function that makes a deal owns it; one thread. */
#ifndef RILLE_BOXING_DEAL_H
#define RILLE_BOXING_DEAL_H

#include "boxing/grid.h"
#include "runtime/data/arena.h"

struct deal {
    const struct grid *from, *to;
    int32_t ntile;    /* number of tiles of the source layout */
    bool apart;       /* no device is in both placements; set only for a partial destination */
    int32_t src, dst; /* corners of the source tile and destination tile that form the cell */
    int32_t turn;     /* number of the share whose addends are being assigned */
    int32_t *give;    /* by addend: the group that it is assigned to */
    int32_t *ntaken;  /* by group: number of addends assigned to it */
    int32_t owned;    /* group of the last deal_owners() call; -1: none yet */
    bool direct;      /* result of deal_owners(): every member reduces for itself */
    int32_t nowner;
    int32_t *owner;
};

/* Initialises a deal. Allocates arrays for the addends of a cell and the members of a group in arena a. */
void deal_init(struct deal *d, struct arena *a, const struct grid *from, const struct grid *to);
/* Returns the number of shares into which a cell is divided; equally good groups get one share each. The number is
 * nearly always 1. */
int32_t deal_shares(const struct deal *d, int32_t src, int32_t dst);
/* Assigns the addends of share number `turn` of a cell to groups. */
void deal_cell(struct deal *d, int32_t src, int32_t dst, int32_t turn);
/* Selects the ranks that reduce for a group with several addends. owner[]: source positions of these ranks; each
 * rank reduces one share. With `direct`, every member reduces for itself, which costs the same and saves a hop. */
void deal_owners(struct deal *d, int32_t group);
/* Computes share k of the n shares of a cell. Splits the cell along the dimension that makes the largest share
 * smallest. Returns false if the share is empty. */
bool deal_share(const struct box *cell, int ndim, int32_t n, int32_t k, struct box *share);
/* Returns the least possible bytes sent per element of a cell. Allocates nothing. */
int64_t deal_cost(const struct grid *from, const struct grid *to, int32_t src, int32_t dst);
/* Returns deal_cost() of a cell that no destination rank holds before the move. */
int64_t deal_cost_apart(const struct grid *from, const struct grid *to);

/* Returns the replica from which a device reads addends. reader: the device's position in the source mesh. The
 * replica has the same coordinates on the source's B axes, so the device reads its own shard if possible. reader -1:
 * the device is not in the source mesh; `turn` selects a replica in round-robin order. */
int32_t deal_replica(const struct grid *from, int32_t reader, int32_t turn);
/* Returns the source position that holds an addend of the cell, in the given replica. */
int32_t deal_source(const struct deal *d, int32_t replica, int32_t addend);

#endif
