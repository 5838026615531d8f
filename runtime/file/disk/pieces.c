/* pieces.c - iterates over a box in pieces of limited size, in row-major order. */
#include "runtime/file/disk/pieces.h"

struct pieces
pieces_begin(const struct box *b, int ndim, int64_t most)
{
    struct pieces w = {.whole = *b, .ndim = ndim, .cut = ndim - 1};
    int64_t inner = 1;
    while (w.cut >= 0 && inner * (b->hi[w.cut] - b->lo[w.cut]) <= most) {
        inner *= b->hi[w.cut] - b->lo[w.cut];
        w.cut--;
    }
    w.step = MAX(1, most / MAX(inner, 1));
    return w;
}

static int64_t
piece_end(const struct pieces *w, int i)
{
    return MIN(w->whole.hi[i], w->piece.lo[i] + (i == w->cut ? w->step : 1));
}

bool
pieces_next(struct pieces *w)
{
    if (!w->begun) {
        w->begun = true;
        w->piece = w->whole;
        for (int i = 0; i <= w->cut; i++) w->piece.hi[i] = piece_end(w, i);
        return box_numel(&w->whole, w->ndim) > 0;
    }
    for (int i = w->cut; i >= 0; i--) {
        bool more = w->piece.hi[i] < w->whole.hi[i];
        w->piece.lo[i] = more ? w->piece.hi[i] : w->whole.lo[i];
        w->piece.hi[i] = piece_end(w, i);
        if (more) return true;
    }
    return false;
}

struct box
box_all(const struct type *t)
{
    struct box b = {0};
    for (int i = 0; i < t->ndim; i++) b.hi[i] = t->dim[i];
    return b;
}
