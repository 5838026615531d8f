/* pieces.h - a box cut into pieces of limited size, in row-major order: values go by way of a small block of memory.
 *
 * The values of the pieces, one after the other, are the values of the box. The caller owns the walk; any thread. */
#ifndef RILLE_RUNTIME_FILE_PIECES_H
#define RILLE_RUNTIME_FILE_PIECES_H

#include "runtime/layout.h"

struct pieces {
    struct box whole, piece;
    int ndim;
    int cut; /* the axis that pieces cut: they are one thick on those before it, whole on those behind; -1: one piece */
    int64_t step;
    bool begun;
};

/* Begins pieces of at most `most` elements, at least one. */
struct pieces pieces_begin(const struct box *b, int ndim, int64_t most);
/* Puts the next into piece; false after the last. */
bool pieces_next(struct pieces *w);
/* All of a value. */
struct box box_all(const struct type *t);

#endif
