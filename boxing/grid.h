/* grid.h - a layout as a grid of tiles, so that boxing never compares all pairs of ranks.
 *
 * The S axes of a mesh cut the tensor into tiles. A tile is stored at several mesh positions: along P axes its
 * addends, along B axes replicas of each addend. So a position is described by three numbers: the corner of its tile
 * (the position of the same tile with all P and B coordinates 0), an addend, and a replica. Finding the holders of
 * an element takes one division per cut. A grid is a plain value that borrows type and layout; any thread. */
#ifndef RILLE_BOXING_GRID_H
#define RILLE_BOXING_GRID_H

#include "runtime/tensor/layout.h"

struct grid {
    const struct layout *layout;
    const struct type *type;
    int32_t stride[MAX_AXIS]; /* by axis: distance in mesh order between neighbours along the axis */
    int32_t naddend;          /* number of addends of a tile: product of the sizes of the P axes */
    int32_t nreplica;         /* number of replicas of an addend: product of the sizes of the B axes */
    uint8_t ncut[MAX_DIM];
    uint8_t cut[MAX_DIM][MAX_AXIS]; /* by dimension: mesh axes that split it, in cutting order */
    int64_t width;                  /* bytes of an element in a shard */
};

struct spot {
    int32_t corner, addend, replica;
};

/* Returns the grid of a layout of a tensor of global type t. */
struct grid grid_of(const struct layout *l, const struct type *t);
struct spot grid_spot(const struct grid *g, int32_t pos);
int32_t grid_pos(const struct grid *g, struct spot s);
/* Returns the position, in grid `in`, of the device at position `pos` of grid `of`; -1: none. */
int32_t grid_other(const struct grid *of, const struct grid *in, int32_t pos);
int32_t grid_rank(const struct grid *g, int32_t pos);
/* Returns true if the grids have no device in common. */
bool grid_apart(const struct grid *g, const struct grid *h);
/* Returns the index of a tile in mesh order. Callers use it to alternate between equally good choices. */
int32_t grid_tile(const struct grid *g, int32_t corner);
/* Returns the index of the shard that contains element k, if shard_range() splits n elements into `parts` shards. */
int32_t grid_part(int64_t n, int32_t unit, int64_t parts, int64_t k);
/* Returns the reduction of the P axes with more than one rank; RED_NONE: no P axis has more than one rank. */
enum reduce grid_reduce(const struct grid *g);

/* Iterates over the tiles of g that intersect a box, last dimension fastest. */
struct cell_walk {
    const struct grid *g;
    struct box within;
    struct box box; /* the tile that the iteration has reached, clipped to the box */
    int32_t corner; /* corner of the tile that the iteration has reached */
    int32_t part[MAX_DIM];
};
/* Begins the iteration over the tiles that intersect a box. Use: for (bool more = cell_begin(&w, &g, &box); more;
 * more = cell_next(&w)) */
bool cell_begin(struct cell_walk *w, const struct grid *g, const struct box *within);
bool cell_next(struct cell_walk *w);

#endif
