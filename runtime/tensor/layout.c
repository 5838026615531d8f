/* layout.c - computes the geometry of layouts: the box of a tensor that each mesh position holds.
 *
 * A mesh axis with S splits one dimension. Axes that split the same dimension do so in the layout's order: each axis
 * splits the ranges that the preceding axis has made. Only shard_range() knows how a range is cut. */
#include "runtime/tensor/layout.h"
#include "runtime/tensor/atlas.h"

#include "runtime/base/error.h"
#include "runtime/data/hash.h"
#include "runtime/base/device_kinds.h"

#include <string.h>

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
layout_appends(const struct layout *l, const struct type *t)
{
    int64_t ranks = 1;
    if (t->ndim == 0 || layout_has_partial(l)) return false;
    for (int i = 0; i < l->place->naxis; i++) {
        struct sbp s = l->sbp[l->order[i]];
        if (s.kind != SBP_S || s.axis != 0) continue;
        ranks *= l->place->axis[l->order[i]];
        if (t->dim[0] / shard_unit(t->dim[0], s.unit) % ranks) return false;
    }
    return true;
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

/* Prints and parses layouts and placements.
 *
 *   sbp    = "S(" integer [", unit" integer] ")" | "B" | "P" | "P(" ("sum" | "max" | "min") ")"
 *   layout = (sbp | "(" sbp {"," sbp} ")") ["order" "(" integer {"," integer} ")"]
 *
 * Spaces may separate words. A parsing function advances the cursor and returns true if it found its words. Only
 * the function that received the complete text reports errors. */

/* ---- printing layouts ---- */

static void
mesh_print(const struct place *p, int axis, int first, int n, struct str *s)
{
    if (axis == p->naxis) {
        str_addf(s, "%d", (int)p->rank[first]);
        return;
    }
    int each = n / p->axis[axis];
    str_add(s, "[");
    for (int i = 0; i < p->axis[axis]; i++) {
        if (i) str_add(s, ", ");
        mesh_print(p, axis + 1, first + i * each, each, s);
    }
    str_add(s, "]");
}

void
place_print(const struct place *p, struct str *s)
{
    str_add(s, device_kind_text(p->kind));
    mesh_print(p, 0, 0, p->nrank, s);
}

void
sbp_print(struct sbp s, struct str *out)
{
    if (s.kind == SBP_S && s.unit)
        str_addf(out, "S(%d, unit %d)", s.axis, (int)s.unit);
    else if (s.kind == SBP_S)
        str_addf(out, "S(%d)", s.axis);
    else if (s.kind == SBP_B)
        str_add(out, "B");
    else if (s.reduce == RED_SUM)
        str_add(out, "P");
    else
        str_addf(out, "P(%s)", reduce_text(s.reduce));
}

void
layout_print(const struct layout *l, struct str *out)
{
    int n = l->place->naxis;
    bool mesh_order = true;

    if (n > 1) str_add(out, "(");
    for (int i = 0; i < n; i++) {
        if (i) str_add(out, ", ");
        sbp_print(l->sbp[i], out);
        mesh_order = mesh_order && l->order[i] == i;
    }
    if (n > 1) str_add(out, ")");
    if (mesh_order) return;
    str_add(out, " order (");
    for (int i = 0; i < n; i++) str_addf(out, "%s%d", i ? ", " : "", l->order[i]);
    str_add(out, ")");
}

/* ---- parsing layouts ---- */

struct cursor {
    const char *at;
};

static void
skip_layout_spaces(struct cursor *c)
{
    while (*c->at == ' ' || *c->at == '\t') c->at++;
}

/* Accepts a word at the cursor: skips it and returns true. */
static bool
accept_word(struct cursor *c, const char *word)
{
    size_t n = strlen(word);
    skip_layout_spaces(c);
    if (strncmp(c->at, word, n)) return false;
    c->at += n;
    return true;
}

static bool
take_integer(struct cursor *c, int *out)
{
    bool minus = accept_word(c, "-");
    const char *first;
    skip_layout_spaces(c);
    first = c->at;
    for (*out = 0; *c->at >= '0' && *c->at <= '9' && c->at - first < 9; c->at++) *out = *out * 10 + (*c->at - '0');
    if (minus) *out = -*out;
    return c->at > first;
}

static bool
at_end(struct cursor *c)
{
    skip_layout_spaces(c);
    return *c->at == '\0';
}

static bool
take_reduce(struct cursor *c, uint8_t *out)
{
    static const enum reduce partials[] = {RED_SUM, RED_MAX, RED_MIN};
    for (size_t i = 0; i < countof(partials); i++) {
        *out = (uint8_t)partials[i];
        if (accept_word(c, reduce_text(partials[i]))) return true;
    }
    return false;
}

/* Parses the unit of S( ), if there is one. */
static bool
take_unit(struct cursor *c, struct sbp *out)
{
    int unit = 1;
    bool fits = !accept_word(c, ",") || (accept_word(c, "unit") && take_integer(c, &unit) && unit > 0);
    out->unit = unit > 1 ? unit : 0;
    return fits;
}

/* Parses one entry. *axis: the number in S( ), which may be negative. */
static bool
take_sbp(struct cursor *c, struct sbp *out, int *axis)
{
    *out = (struct sbp){0};
    *axis = 0;
    if (accept_word(c, "B")) {
        out->kind = SBP_B;
        return true;
    }
    if (accept_word(c, "S")) {
        out->kind = SBP_S;
        return accept_word(c, "(") && take_integer(c, axis) && take_unit(c, out) && accept_word(c, ")");
    }
    if (!accept_word(c, "P")) return false;
    out->kind = SBP_P;
    out->reduce = RED_SUM;
    return !accept_word(c, "(") || (take_reduce(c, &out->reduce) && accept_word(c, ")"));
}

/* Converts an axis number. Negative numbers count from the last dimension, and need the tensor's number of
 * dimensions. */
static int
resolve_axis(const char *text, int axis, int ndim, struct sbp *s)
{
    int n = ndim < 0 ? MAX_DIM : ndim;
    if (s->kind != SBP_S) return 0;
    if (axis < 0 && ndim < 0)
        return fail(E_SBP, "\"%s\": S(%d) needs a tensor with a known number of axes", text, axis);
    if (axis >= n || axis < -n) {
        if (ndim < 0) return fail(E_SBP, "\"%s\": a tensor has at most %d axes", text, MAX_DIM);
        return fail(E_SBP, "\"%s\" splits axis %d, but the tensor has %d ax%s", text, axis, ndim,
                    ndim == 1 ? "is" : "es");
    }
    s->axis = (uint8_t)(axis < 0 ? axis + n : axis);
    return 0;
}

int
sbp_parse(const char *text, int ndim, struct sbp *out)
{
    struct cursor c = {text};
    int axis;
    if (!take_sbp(&c, out, &axis) || !at_end(&c))
        return fail(E_SBP, "\"%s\" is not an SBP: expected S(axis), S(axis, unit n), B, P, P(max) or P(min)", text);
    return resolve_axis(text, axis, ndim, out);
}

static int
bad_layout(const char *text, const struct place *p)
{
    if (p->naxis == 1)
        return fail(E_SBP, "\"%s\" is not an SBP: expected S(axis), S(axis, unit n), B, P, P(max) or P(min)", text);
    return fail(E_SBP, "\"%s\" is not an SBP of a mesh of %d axes: expected one entry per axis, as in \"(B, S(0))\"",
                text, p->naxis);
}

/* Parses "(" integer {"," integer} ")" with p->naxis integers. */
static bool
take_order(struct cursor *c, const struct place *p, uint8_t *order)
{
    int n = 0, axis;
    if (!accept_word(c, "(")) return false;
    do {
        if (n == p->naxis || !take_integer(c, &axis) || axis < 0 || axis >= p->naxis) return false;
        order[n++] = (uint8_t)axis;
    } while (accept_word(c, ","));
    return n == p->naxis && accept_word(c, ")");
}

/* Fails because the number of entries is wrong; the text shows the expected form. */
static int
wrong_count(const char *text, int n, const struct place *p)
{
    if (n != 1)
        return fail(E_SBP, "\"%s\" has %d entries, but the mesh has %d ax%s", text, n, p->naxis,
                    p->naxis == 1 ? "is" : "es");
    struct str full = {0};
    size_t len = strlen(text), brackets = text[0] == '(' && text[len - 1] == ')';
    str_addf(&full, "{\"%.*s\"", (int)(len - 2 * brackets), text + brackets);
    for (int k = 1; k < p->naxis; k++) str_addf(&full, ", \"B\"");
    int status = fail(E_SBP, "\"%s\" has 1 entry, but the mesh has %d axes: write one entry per axis, as in %s}", text,
                      p->naxis, str_text(&full));
    str_free(&full);
    return status;
}

int
layout_parse(struct atlas *a, const struct place *p, const char *text, int ndim, const struct layout **out)
{
    struct cursor c = {text};
    struct sbp sbp[MAX_AXIS];
    uint8_t order[MAX_AXIS];
    bool parenthesised = accept_word(&c, "("), ordered;
    int n = 0, axis;

    do {
        struct sbp entry;
        if (!take_sbp(&c, &entry, &axis)) return bad_layout(text, p);
        TRY(resolve_axis(text, axis, ndim, &entry));
        if (n < p->naxis) sbp[n] = entry;
        n++;
    } while (parenthesised && accept_word(&c, ","));
    if (parenthesised && !accept_word(&c, ")")) return bad_layout(text, p);
    ordered = accept_word(&c, "order");
    if ((ordered && !take_order(&c, p, order)) || !at_end(&c)) return bad_layout(text, p);
    if (n == 1 && !parenthesised && sbp[0].kind == SBP_B) /* "B" alone stands for all axes */
        while (n < p->naxis) sbp[n++] = sbp[0];
    if (n != p->naxis) return wrong_count(text, n, p);
    return layout_new(a, p, sbp, ordered ? order : NULL, out);
}
