/* grid.h - a layout seen as a grid of tiles, so that boxing never looks at all pairs of ranks.
 *
 * The S axes of a mesh cut the tensor into tiles. Every tile lies at several mesh positions: its P axes hold different
 * addends of it, its B axes replicas of each addend. So a position is three numbers - the corner of its tile (the
 * position with all P and B coordinates 0), an addend, a replica - and a search for what holds an element goes down the
 * cuts, one division a cut. A value; it borrows type and layout; any thread. */
#ifndef RILLE_BOXING_GRID_H
#define RILLE_BOXING_GRID_H

#include "runtime/layout.h"

struct grid {
    const struct layout *layout;
    const struct type *type;
    int32_t stride[MAX_AXIS]; /* of mesh positions */
    int32_t naddend;          /* positions of one tile along P axes */
    int32_t nreplica;         /* and along B axes */
    uint8_t ncut[MAX_DIM];
    uint8_t cut[MAX_DIM][MAX_AXIS]; /* the mesh axes that cut a dimension, in order */
    int64_t width;                  /* bytes of an element, as ranks hold it */
};

struct spot {
    int32_t corner, addend, replica;
};

/* The grid of a layout of a tensor of global type t. */
struct grid grid_of(const struct layout *l, const struct type *t);
struct spot grid_spot(const struct grid *g, int32_t pos);
int32_t grid_pos(const struct grid *g, struct spot s);
/* Where the device at a position of one grid is in another; -1: nowhere. */
int32_t grid_other(const struct grid *of, const struct grid *in, int32_t pos);
int32_t grid_rank(const struct grid *g, int32_t pos);
/* Is no device on both? */
bool grid_apart(const struct grid *g, const struct grid *h);
/* The number of a tile, in mesh order; for turns. */
int32_t grid_tile(const struct grid *g, int32_t corner);
/* The part of the balanced split of n that holds k: the first n mod parts of them have one more. */
int32_t grid_part(int64_t n, int64_t parts, int64_t k);
/* The kind of partial that counts: on axes longer than one. RED_NONE if there is none. */
enum reduce grid_reduce(const struct grid *g);

/* Goes over the tiles of g that meet a box, last dimension fastest. */
struct cell_walk {
    const struct grid *g;
    struct box within;
    struct box box; /* the tile now, cut to within */
    int32_t corner; /* whose tile it is */
    int32_t part[MAX_DIM];
};
/* for (bool more = cell_begin(&w, &g, &box); more; more = cell_next(&w)) */
bool cell_begin(struct cell_walk *w, const struct grid *g, const struct box *within);
bool cell_next(struct cell_walk *w);

#endif
