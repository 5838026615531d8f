/* relay.h - who adds what when a running sum is handed on (struct box_relay).
 *
 * The addends of a cell are cut into legs. The holders of a leg's addends share the cell: the owner of a share takes
 * the sum of the addends before the leg from who owns that share in the leg before, adds those of its own leg in their
 * order and hands the sum on, chunk by chunk. So one running sum goes from leg to leg where otherwise each addend
 * would, and the sum is the same left fold.
 *
 * A value; it borrows the grid and the legs; any thread. */
#ifndef RILLE_BOXING_RELAY_H
#define RILLE_BOXING_RELAY_H

#include "boxing/box.h"
#include "boxing/grid.h"

struct relay {
    const struct grid *from;
    const struct box_relay *how;
    int32_t nshare; /* of a cell: the most owners that a leg has */
    bool bare;      /* leg 0 is one addend: leg 1 reads it where it lies */
};

struct relay relay_of(const struct grid *from, const struct box_relay *how);
int32_t relay_leg(const struct relay *r, int32_t addend);
/* Of the source tile at corner: the position that owns a share in a leg; in a bare leg, whose part is read. */
int32_t relay_owner(const struct relay *r, int32_t corner, int32_t leg, int32_t share);
/* The first share that a position owns in its leg, and how many shares on the next one is. */
int32_t relay_first(const struct relay *r, struct spot at, int32_t *step);
/* Chunk `chunk` of a share of a cell. False: it is empty. */
bool relay_piece(const struct relay *r, const struct box *cell, int32_t share, int32_t chunk, struct box *piece);
/* The number of the stage in which a position keeps that chunk of what it adds up in its leg. */
int32_t relay_stage(const struct relay *r, int32_t leg, int32_t pos, int32_t chunk);
/* The same of the whole sum on its way back: of a leg but the last. */
int32_t relay_back(const struct relay *r, int32_t leg, int32_t pos, int32_t chunk);
/* Do all who hold addends of a tile, and nobody else, want its sum? */
bool relay_may_go_back(const struct layout *from, const struct layout *to);

#endif
