/* pieces.h - a box cut into pieces of limited size, in row-major order: values go by way of a small block of memory.
 *
 * The values of the pieces, one after the other, are the values of the box. A value of the caller's; any thread. */
#ifndef RILLE_RUNTIME_FILE_PIECES_H
#define RILLE_RUNTIME_FILE_PIECES_H

#include "runtime/layout.h"

struct pieces {
    struct box whole, piece;
    int ndim;
    int cut; /* pieces are cut along this axis, one thick on those before it, whole on those behind; -1: one piece */
    int64_t step;
    bool begun;
};

/* Pieces of at most `most` elements, at least one. */
struct pieces pieces_begin(const struct box *b, int ndim, int64_t most);
/* The next is in piece; false after the last. */
bool pieces_next(struct pieces *w);
/* All of a value. */
struct box box_all(const struct type *t);

#endif
