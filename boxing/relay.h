/* relay.h - the owners and stages of a hierarchical reduction (struct box_relay).
 *
 * The addends of a cell are divided into segments ("legs"). The holders of a segment's addends divide the cell into
 * slices, called shares. Each share has one owner in every segment. The owner receives the running sum of its share
 * from the owner in the segment before, adds the addends of its own segment in order, and passes the sum to the next
 * segment, chunk by chunk. So a single running sum moves between segments instead of every addend, and the order of
 * additions stays the same.
 *
 * A plain value that borrows the grid and the segments; any thread. */
#ifndef RILLE_BOXING_RELAY_H
#define RILLE_BOXING_RELAY_H

#include "boxing/box.h"
#include "boxing/grid.h"

struct relay {
    const struct grid *from;
    const struct box_relay *how;
    int32_t nshare; /* number of shares (slices) of a cell: the largest number of owners in a segment */
    /* true: segment 0 has a single addend, so it has no stage, and segment 1 reads the addend in place */
    bool bare;
};

struct relay relay_of(const struct grid *from, const struct box_relay *how);
int32_t relay_segment(const struct relay *r, int32_t addend);
/* Returns the position that owns (reduces) a share in a segment; the cells are those of the source tile at `corner`.
 * The holders of the segment's addends own shares in round-robin order. */
int32_t relay_owner(const struct relay *r, int32_t corner, int32_t leg, int32_t share);
/* Returns the first share (slice of a cell) that a position owns in its segment of addends. *step: distance from one
 * of its shares to the next. */
int32_t relay_first(const struct relay *r, struct spot at, int32_t *step);
/* Computes a chunk of a share, as a slice of the cell. Returns false if the chunk is empty. */
bool relay_piece(const struct relay *r, const struct box *cell, int32_t share, int32_t chunk, struct box *piece);
/* Returns the number of the stage (buffer) in which a position holds the running sum of a chunk, in its segment of
 * addends. */
int32_t relay_stage(const struct relay *r, int32_t leg, int32_t pos, int32_t chunk);
/* Returns the number of the stage (buffer) for the complete sum on its way back through the segments. The last
 * segment has no such stage. */
int32_t relay_back(const struct relay *r, int32_t leg, int32_t pos, int32_t chunk);
/* Returns true if exactly the ranks that hold a tile's addends need the tile's sum. */
bool relay_may_go_back(const struct layout *from, const struct layout *to);

#endif
