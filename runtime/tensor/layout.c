/* layout.c - computes the geometry of layouts: the box of a tensor that each mesh position holds.
 *
 * A mesh axis with S splits one dimension. Axes that split the same dimension do so in the layout's order: each axis
 * splits the ranges that the preceding axis has made. Only shard_range() knows how a range is cut. */
#include "runtime/tensor/layout.h"

#include "runtime/base/error.h"
#include "runtime/data/hash.h"

#include <inttypes.h>

const char *
reduce_text(enum reduce r)
{
    static const char *const text[NREDUCE] = {"none", "sum", "max", "min", "prod"};
    assert((unsigned)r < NREDUCE);
    return text[r];
}

int64_t
shard_unit(int64_t n, int32_t unit)
{
    return unit > 1 && n % unit == 0 ? unit : 1;
}

void
shard_range(int64_t n, int32_t unit, int64_t parts, int64_t i, int64_t *lo, int64_t *hi)
{
    int64_t size = shard_unit(n, unit), least = n / size / parts, longer = n / size % parts;
    assert(parts > 0 && i >= 0 && i < parts);
    *lo = (i * least + MIN(i, longer)) * size;
    *hi = *lo + (least + (i < longer)) * size;
}

void
layout_drop_units(const struct place *p, const struct type *t, const uint8_t *order, struct sbp *sbp)
{
    int64_t parts[MAX_DIM];
    bool equal[MAX_DIM]; /* true: the axes so far split the dimension into equal shards of complete units */
    for (int d = 0; d < t->ndim; d++) parts[d] = 1, equal[d] = true;
    for (int i = 0; i < p->naxis; i++) {
        struct sbp *s = &sbp[order[i]];
        if (s->kind != SBP_S) continue;
        int64_t n = t->dim[s->axis], unit = shard_unit(n, s->unit);
        parts[s->axis] *= p->axis[order[i]];
        equal[s->axis] = equal[s->axis] && n / unit % parts[s->axis] == 0;
        if (equal[s->axis] || p->axis[order[i]] == 1) s->unit = 0;
    }
}

/* Fails because entry s of the layout does not fit the type. */
static int
refuse_entry(const struct layout *l, struct sbp s, const struct type *t)
{
    struct str text = {0}, shape = {0};
    layout_print(l, &text);
    shape_print(t, &shape);
    int status = s.axis >= t->ndim
                     ? fail(E_SBP, "%s splits axis %d, but shape %s has %d axes", str_text(&text), s.axis,
                            str_text(&shape), t->ndim)
                     : fail(E_SBP, "%s: the unit must divide axis %d of shape %s, expected a divisor of %" PRId64,
                            str_text(&text), s.axis, str_text(&shape), t->dim[s.axis]);
    str_free(&text);
    str_free(&shape);
    return status;
}

int
layout_fits(const struct layout *l, const struct type *t)
{
    for (int i = 0; i < l->place->naxis; i++) {
        struct sbp s = l->sbp[i];
        if (s.kind == SBP_S && (s.axis >= t->ndim || (s.unit && t->dim[s.axis] % s.unit))) return refuse_entry(l, s, t);
    }
    return 0;
}

void
layout_box(const struct layout *l, const struct type *t, int pos, struct box *out)
{
    int32_t coord[MAX_AXIS];
    place_coord(l->place, pos, coord);
    for (int d = 0; d < MAX_DIM; d++) {
        out->lo[d] = 0;
        out->hi[d] = d < t->ndim ? t->dim[d] : 0;
    }
    for (int i = 0; i < l->place->naxis; i++) {
        int m = l->order[i], d = l->sbp[m].axis;
        if (l->sbp[m].kind != SBP_S) continue;
        assert(d < t->ndim);
        int64_t base = out->lo[d];
        shard_range(out->hi[d] - base, l->sbp[m].unit, l->place->axis[m], coord[m], &out->lo[d], &out->hi[d]);
        out->lo[d] += base;
        out->hi[d] += base;
    }
}

enum dtype
layout_dtype(const struct layout *l, enum dtype d)
{
    return dtype_is_half(d) && layout_partial(l) == RED_SUM ? DT_F32 : d;
}

struct type
layout_shard(const struct layout *l, const struct type *t, int pos)
{
    struct box box;
    struct type local = *t;
    layout_box(l, t, pos, &box);
    local.dtype = (uint8_t)layout_dtype(l, (enum dtype)t->dtype);
    for (int d = 0; d < t->ndim; d++) local.dim[d] = box.hi[d] - box.lo[d];
    return local;
}

enum reduce
layout_partial(const struct layout *l)
{
    for (int i = 0; i < l->place->naxis; i++)
        if (l->sbp[i].kind == SBP_P && l->place->axis[i] > 1) return l->sbp[i].reduce;
    return RED_NONE;
}

int
layout_origin(const struct layout *l, int pos)
{
    int32_t coord[MAX_AXIS];
    int origin = 0;
    place_coord(l->place, pos, coord);
    for (int a = 0; a < l->place->naxis; a++)
        origin = origin * l->place->axis[a] + (l->sbp[a].kind == SBP_B ? 0 : coord[a]);
    return origin;
}

bool
layout_is_later_part(const struct layout *l, int pos)
{
    int32_t coord[MAX_AXIS];
    place_coord(l->place, pos, coord);
    for (int a = 0; a < l->place->naxis; a++)
        if (l->sbp[a].kind == SBP_P && coord[a]) return true;
    return false;
}

bool
layout_has_partial(const struct layout *l)
{
    for (int i = 0; i < l->place->naxis; i++)
        if (l->sbp[i].kind == SBP_P) return true;
    return false;
}

bool
box_equal(const struct box *a, const struct box *b, int ndim)
{
    if (box_numel(a, ndim) == 0 && box_numel(b, ndim) == 0) return true;
    for (int d = 0; d < ndim; d++)
        if (a->lo[d] != b->lo[d] || a->hi[d] != b->hi[d]) return false;
    return true;
}

/* Returns true if the device at position `pos` of one layout holds another box, or no box, in the other layout. */
static bool
other_box(const struct layout *a, const struct layout *b, const struct type *t, int pos)
{
    struct box mine, other;
    int at = a->place == b->place ? pos : place_find(b->place, a->place->rank[pos]);
    if (at < 0) return true;
    layout_box(a, t, pos, &mine);
    layout_box(b, t, at, &other);
    return !box_equal(&mine, &other, t->ndim);
}

bool
layout_same_boxes(const struct layout *a, const struct layout *b, const struct type *t)
{
    const struct place *p = a->place, *q = b->place;
    if (a == b) return true;
    if (p->kind != q->kind || p->nrank != q->nrank || layout_partial(a) || layout_partial(b)) return false;
    /* Compares the positions one step away along each axis first, because these usually show a difference. So the
     * loop over a large mesh usually ends early. */
    for (int step = p->nrank, i = 0; i < p->naxis; i++)
        if ((step /= p->axis[i]) < p->nrank && other_box(a, b, t, step)) return false;
    for (int pos = 0; pos < p->nrank; pos++)
        if (other_box(a, b, t, pos)) return false;
    return true;
}

uint64_t
layout_hash_move(const struct type *t, const struct layout *from, const struct layout *to)
{
    uint64_t h = hash_number((uint64_t)from->id << 32 | (uint32_t)to->id, (uint64_t)t->dtype << 8 | t->ndim);
    for (int d = 0; d < t->ndim; d++) h = hash_number(h, (uint64_t)t->dim[d]);
    return h;
}

int64_t
box_numel(const struct box *b, int ndim)
{
    int64_t n = 1;
    for (int d = 0; d < ndim; d++) n *= b->hi[d] - b->lo[d];
    return n;
}

bool
box_intersect(const struct box *a, const struct box *b, int ndim, struct box *out)
{
    *out = (struct box){0};
    for (int d = 0; d < ndim; d++) {
        out->lo[d] = MAX(a->lo[d], b->lo[d]);
        out->hi[d] = MIN(a->hi[d], b->hi[d]);
        if (out->lo[d] >= out->hi[d]) return false;
    }
    return true;
}
