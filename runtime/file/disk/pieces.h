/* pieces.h - iterates over a box in pieces of limited size, so that values can pass through a small buffer.
 *
 * The pieces are in row-major order: their values, concatenated, are the values of the box. The caller owns the
 * iterator; any thread. */
#ifndef RILLE_RUNTIME_FILE_DISK_PIECES_H
#define RILLE_RUNTIME_FILE_DISK_PIECES_H

#include "runtime/tensor/layout.h"

struct pieces {
    struct box whole, piece;
    int ndim;
    /* axis along which the box is cut; -1: the box is one piece. A piece has size 1 on the axes before this axis,
     * and the box's size on the axes after it */
    int cut;
    int64_t step;
    bool begun;
};

/* Begins an iteration over pieces of at most `most` elements; each piece has at least one element. */
struct pieces pieces_begin(const struct box *b, int ndim, int64_t most);
/* Advances to the next piece. Returns false after the last. */
bool pieces_next(struct pieces *w);
/* Returns the box that covers the complete value. */
struct box box_all(const struct type *t);

#endif
