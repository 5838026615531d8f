/* relay.h - the owners and stages of a hierarchical reduction (struct box_relay).
 *
 * The addends of a cell are cut into legs (segments). The holders of a leg's addends share the cell. The owner of a
 * share receives the running sum from that share's owner in the leg before. It adds the addends of its own leg in
 * order and hands the sum on, chunk by chunk. So a single running sum moves between legs instead of every addend,
 * with the same left fold.
 *
 * A value; borrows the grid and the legs; any thread. */
#ifndef RILLE_BOXING_RELAY_H
#define RILLE_BOXING_RELAY_H

#include "boxing/box.h"
#include "boxing/grid.h"

struct relay {
    const struct grid *from;
    const struct box_relay *how;
    int32_t nshare; /* shares per cell: the largest number of owners in a leg */
    bool bare;      /* leg 0 is a single addend, which leg 1 reads in place */
};

struct relay relay_of(const struct grid *from, const struct box_relay *how);
int32_t relay_segment(const struct relay *r, int32_t addend);
/* Returns the position that owns a share of the source tile at `corner` in a leg; in a bare leg, the position to
 * read. */
int32_t relay_owner(const struct relay *r, int32_t corner, int32_t leg, int32_t share);
/* Returns the first share that a position owns in its leg; *step: distance to its next share. */
int32_t relay_first(const struct relay *r, struct spot at, int32_t *step);
/* Computes a chunk of a share of a cell; false: empty. */
bool relay_piece(const struct relay *r, const struct box *cell, int32_t share, int32_t chunk, struct box *piece);
/* Returns the number of the stage that holds a position's running sum of a chunk in its leg. */
int32_t relay_stage(const struct relay *r, int32_t leg, int32_t pos, int32_t chunk);
/* Returns the number of the stage for the complete sum on its way back; not for the last leg. */
int32_t relay_back(const struct relay *r, int32_t leg, int32_t pos, int32_t chunk);
/* Returns true if exactly the holders of a tile's addends need its sum. */
bool relay_may_go_back(const struct layout *from, const struct layout *to);

#endif
