/* collective.c - what a move is on the mesh axes that change, and whether blocks lie as a library wants them.
 *
 * Cuts and orders of cuts are not looked at: the boxes of all positions say where
 * blocks lie. */
#include "boxing/collective.h"

#include <string.h>

/* ---- groups ---- */

/* How far positions lie apart that differ by one along an axis. */
static int32_t
stride_of(const struct place *p, int axis)
{
    int32_t stride = 1;
    for (int a = axis + 1; a < p->naxis; a++) stride *= p->axis[a];
    return stride;
}

int32_t
collective_seat(const struct collective *c, const struct place *p, int32_t pos, int32_t *first)
{
    int32_t coord[MAX_AXIS], seat = 0;
    place_coord(p, pos, coord);
    *first = pos;
    for (int a = 0; a < p->naxis; a++) {
        if (!(c->axes >> a & 1)) continue;
        seat = seat * p->axis[a] + coord[a];
        *first -= coord[a] * stride_of(p, a);
    }
    return seat;
}

int32_t
collective_pos(const struct collective *c, const struct place *p, int32_t first, int32_t seat)
{
    for (int a = p->naxis - 1; a >= 0; a--) {
        if (!(c->axes >> a & 1)) continue;
        first += seat % p->axis[a] * stride_of(p, a);
        seat /= p->axis[a];
    }
    return first;
}

/* ---- axes ---- */

static const int8_t verb_of[3][3] = {
    [SBP_S] = {[SBP_S] = -1, [SBP_B] = COLLECT_GATHER, [SBP_P] = -1},
    [SBP_B] = {[SBP_S] = -1, [SBP_B] = -1, [SBP_P] = -1},
    [SBP_P] = {[SBP_S] = COLLECT_SCATTER, [SBP_B] = COLLECT_REDUCE, [SBP_P] = -1},
};

static bool
same_entry(struct sbp a, struct sbp b)
{
    return a.kind == b.kind && (a.kind != SBP_S || a.axis == b.axis) && (a.kind != SBP_P || a.reduce == b.reduce);
}

/* The one thing that all axes do which change. */
static bool
find_axes(const struct layout *from, const struct layout *to, struct collective *c)
{
    int verb = -1;
    *c = (struct collective){.size = 1};
    for (int a = 0; a < from->place->naxis; a++) {
        struct sbp x = from->sbp[a], y = to->sbp[a];
        if (from->place->axis[a] == 1 || same_entry(x, y)) continue;
        int does = verb_of[x.kind][y.kind];
        if (does < 0 || (verb >= 0 && does != verb)) return false;
        verb = does;
        c->axes |= 1u << a;
        c->size *= from->place->axis[a];
        if (x.kind == SBP_P) c->reduce = x.reduce;
    }
    c->verb = (uint8_t)verb;
    return verb >= 0;
}

static bool
reduces(const struct collective *c)
{
    enum dtype d = (enum dtype)c->dtype;
    if (c->reduce == RED_MAX || c->reduce == RED_MIN) return !dtype_is_float(d);
    return c->reduce == RED_NONE || d != DT_BOOL;
}

/* ---- blocks ---- */

/* Is `small` block i of n of `large`, each of them one stretch of its memory? */
static bool
is_block(const struct box *large, const struct box *small, int ndim, int32_t i, int32_t n)
{
    int d = 0;
    while (d < ndim && large->hi[d] - large->lo[d] == 1) d++;
    if (d == ndim) return false;
    int64_t rows = (large->hi[d] - large->lo[d]) / n, lo = large->lo[d] + rows * i;
    struct box block = *large;
    block.lo[d] = lo;
    block.hi[d] = lo + rows;
    size_t bytes = sizeof *block.lo * (size_t)ndim;
    return rows * n == large->hi[d] - large->lo[d] && !memcmp(block.lo, small->lo, bytes) &&
           !memcmp(block.hi, small->hi, bytes);
}

/* What the position has beside what its group has together: that of seat 0 where nothing is cut. */
static bool
fits(const struct collective *c, const struct type *t, const struct layout *from, const struct layout *to, int32_t pos)
{
    struct box has, wants, whole;
    int32_t first, seat = collective_seat(c, from->place, pos, &first);
    layout_box(from, t, pos, &has);
    layout_box(to, t, pos, &wants);
    layout_box(c->verb == COLLECT_GATHER ? to : from, t, first, &whole);
    size_t bytes = sizeof *whole.lo * (size_t)t->ndim;
    const struct box *uncut = c->verb == COLLECT_GATHER ? &wants : &has;
    if (memcmp(uncut->lo, whole.lo, bytes) || memcmp(uncut->hi, whole.hi, bytes)) return false;
    if (c->verb == COLLECT_REDUCE) return !memcmp(has.lo, wants.lo, bytes) && !memcmp(has.hi, wants.hi, bytes);
    return is_block(&whole, c->verb == COLLECT_GATHER ? &has : &wants, t->ndim, seat, c->size);
}

int64_t
collective_numel(const struct collective *c, const struct type *t, const struct layout *from, const struct layout *to,
                 int32_t pos)
{
    struct box block;
    layout_box(c->verb == COLLECT_GATHER ? from : to, t, pos, &block);
    return box_numel(&block, t->ndim);
}

bool
collective_of(const struct type *t, const struct layout *from, const struct layout *to, struct collective *out)
{
    enum dtype d = layout_dtype(from, (enum dtype)t->dtype);
    if (from->place != to->place || type_numel(t) == 0 || d != layout_dtype(to, (enum dtype)t->dtype) ||
        !find_axes(from, to, out))
        return false;
    out->dtype = (uint8_t)d;
    for (int32_t pos = 0; pos < from->place->nrank; pos++)
        if (!fits(out, t, from, to, pos)) return false;
    return reduces(out);
}
