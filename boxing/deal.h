/* deal.h - who gets what of one cell: the decision at the heart of a move.
 *
 * A cell is where a source tile and a destination tile meet. All its elements
 * are in the same case: p addends, each with holders (the source positions
 * that have it), and q groups of destination positions, each group sharing one
 * value (q > 1 only under P, where the groups' values are to combine to the
 * whole). The deal gives each addend to a group so that the fewest
 * transmissions serve it:
 *   - a group without addends fills itself with the identity: nobody sends anything;
 *   - a group with one addend copies it: each member that does not hold it
 *     receives it once;
 *   - a group with k > 1 addends adds them up at an owner: k + members - 2
 *     transmissions, one more when no member holds any of them. Necessary,
 *     because k - 1 transmissions come before any rank is complete and each
 *     other member needs one after. The first are as wide as an addend, the
 *     others as what the group holds: a sum of halves is f32 until it is whole.
 *
 * Its maker owns a deal; one thread. */
#ifndef RILLE_BOXING_DEAL_H
#define RILLE_BOXING_DEAL_H

#include "boxing/grid.h"
#include "runtime/arena.h"

struct deal {
    const struct grid *from, *to;
    int32_t ntile;    /* of the source */
    bool apart;       /* no device is on both sides; set for a partial destination only */
    int32_t src, dst; /* the cell: corners of its tiles */
    int32_t turn;     /* the share */
    int32_t *give;    /* by addend: the group that gets it */
    int32_t *ntaken;  /* by group: addends it gets */
    int32_t owned;    /* the group that deal_owners last dealt with; -1: none in this share of the cell */
    bool direct;      /* and said so */
    int32_t nowner;
    int32_t *owner;
};

/* Takes of arena a as much as a cell has addends and a group members. */
void deal_init(struct deal *d, struct arena *a, const struct grid *from, const struct grid *to);
/* In how many shares to deal a cell: where any of several groups may serve, they take turns. 1 nearly always. */
int32_t deal_shares(const struct deal *d, int32_t src, int32_t dst);
/* Deals share number `turn` of a cell. */
void deal_cell(struct deal *d, int32_t src, int32_t dst, int32_t turn);
/* Who adds up for a group that gets several addends: the source positions in owner[] a share each, or with direct every
 * member for itself, which then costs the same and is one hop less. */
void deal_owners(struct deal *d, int32_t group);
/* Share k of n of a cell: cut along the dimension that keeps the largest share smallest. False: it is empty. */
bool deal_share(const struct box *cell, int ndim, int32_t n, int32_t k, struct box *share);
/* Bytes that ranks send for each element of a cell, the fewest possible. No allocation. */
int64_t deal_cost(const struct grid *from, const struct grid *to, int32_t src, int32_t dst);
/* The same for a cell of which no destination holds anything. */
int64_t deal_cost_apart(const struct grid *from, const struct grid *to);

/* The replica from which a device takes addends of any cell. reader: that device's own source position; it reads itself
 * if it can, else the replica that has its place along the source's B axes. -1: it has none, and the replicas take
 * turns. */
int32_t deal_replica(const struct grid *from, int32_t reader, int32_t turn);
/* The source position that has an addend of the cell. */
int32_t deal_source(const struct deal *d, int32_t replica, int32_t addend);

#endif
