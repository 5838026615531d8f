/* deal.h - assigns the transmissions and reductions of one cell to ranks: the core of a move.
 *
 * A cell is the intersection of a source tile and a destination tile. The elements of a cell are in the same case: p
 * addends, each with holders (source positions), and q groups of destination positions, each with one value (q > 1
 * only under P, where the groups' values combine to the whole). The deal assigns each addend to a group so that
 * transmissions are fewest:
 * - a group without addends fills itself with the identity, without a transmission;
 * - a group with one addend copies it: a member that does not hold the addend
 *   receives it once;
 * - a group with k > 1 addends reduces them at an owner: k + members - 2
 *   transmissions, one more if no member holds an addend. That is the minimum,
 *   because k - 1 transmissions precede the first complete rank, and each
 *   further member needs one afterwards. The first are as wide as an addend, the
 *   others as the group's value: a sum of halves is f32 until it is complete.
 *
 * Its maker owns a deal; one thread. */
#ifndef RILLE_BOXING_DEAL_H
#define RILLE_BOXING_DEAL_H

#include "boxing/grid.h"
#include "runtime/base/arena.h"

struct deal {
    const struct grid *from, *to;
    int32_t ntile;    /* number of source tiles */
    bool apart;       /* no device is in both placements; set for a partial destination only */
    int32_t src, dst; /* corners of the cell's tiles */
    int32_t turn;     /* number of the share */
    int32_t *give;    /* by addend: its group */
    int32_t *ntaken;  /* by group: number of its addends */
    int32_t owned;    /* group of the last deal_owners; -1: none yet */
    bool direct;      /* result of deal_owners: every member reduces for itself */
    int32_t nowner;
    int32_t *owner;
};

/* Allocates in a, for the addends of a cell and the members of a group. */
void deal_init(struct deal *d, struct arena *a, const struct grid *from, const struct grid *to);
/* Returns the number of shares of a cell: groups that serve equally well take turns. Nearly always 1. */
int32_t deal_shares(const struct deal *d, int32_t src, int32_t dst);
/* Deals share number `turn` of a cell. */
void deal_cell(struct deal *d, int32_t src, int32_t dst, int32_t turn);
/* Selects who reduces for a group with several addends: the source positions in owner[], one share each; or, if
 * `direct`, every member for itself, which costs the same and saves a hop. */
void deal_owners(struct deal *d, int32_t group);
/* Computes share k of n of a cell, cut along the dimension for which the largest share is smallest; false: empty. */
bool deal_share(const struct box *cell, int ndim, int32_t n, int32_t k, struct box *share);
/* Returns the bytes sent per element of a cell, the least possible. No allocation. */
int64_t deal_cost(const struct grid *from, const struct grid *to, int32_t src, int32_t dst);
/* deal_cost of a cell of which no destination holds an element. */
int64_t deal_cost_apart(const struct grid *from, const struct grid *to);

/* Returns the replica whose addends a device reads. reader: the device's own source position; it reads itself if
 * possible, else the replica with its coordinates on the source's B axes. -1: no position, and replicas take turns. */
int32_t deal_replica(const struct grid *from, int32_t reader, int32_t turn);
/* Returns the source position with an addend of the cell. */
int32_t deal_source(const struct deal *d, int32_t replica, int32_t addend);

#endif
