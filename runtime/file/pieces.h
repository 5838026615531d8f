/* pieces.h - a box cut into pieces of limited size, so that values can pass through a small buffer.
 *
 * The pieces are in row-major order: their values, concatenated, are the values of the box. The caller owns the
 * iterator; any thread. */
#ifndef RILLE_RUNTIME_FILE_PIECES_H
#define RILLE_RUNTIME_FILE_PIECES_H

#include "runtime/tensor/layout.h"

struct pieces {
    struct box whole, piece;
    int ndim;
    int cut; /* axis that is cut: pieces have size 1 on earlier axes, full size on later axes; -1: one piece */
    int64_t step;
    bool begun;
};

/* Starts a walk over pieces of at most `most` elements, but at least one. */
struct pieces pieces_begin(const struct box *b, int ndim, int64_t most);
/* Sets `piece` to the next piece; returns false after the last. */
bool pieces_next(struct pieces *w);
/* Returns the box that covers the value. */
struct box box_all(const struct type *t);

#endif
