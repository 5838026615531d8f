/* sound.h - does a signature mean what it says? The ranks are played one after the other, and their results joined.
 *
 * sound_start() takes a record and a sample and computes the whole result once.
 * sound_holds() then places the operands as some layouts say (partial values in
 * uneven parts, some of them the identity that a move would fill in), computes
 * every rank's part by the reference, joins the parts and compares. All values
 * are whole numbers, so sums are exact. sound_each_derived() does so for every signature that the rule gives. */
#ifndef RILLE_T_SOUND_H
#define RILLE_T_SOUND_H

#include "runtime/arena.h"
#include "runtime/error.h"
#include "sbp/sig.h"
#include "t/sample.h"
#include "t/tap.h"

enum { SOUND_FILLS = 4, SOUND_RANKS = 8 };

/* A reference sees floats as f64 and everything else as i64: both are one cell. */
union cell {
    double f;
    int64_t i;
};

struct sound {
    struct arena arena;
    struct atlas *atlas;
    struct sample sample;
    struct rule rule;
    struct sig_list list; /* of one mesh axis */
    int noperand;
    uint64_t random;
    int64_t room;       /* cells of the largest operand, and some more */
    union cell **whole; /* of each operand and result */
    union cell **part[SOUND_RANKS];
};

static inline const struct type *
sound_type(const struct sound *s, int k)
{
    return k < s->rule.nin ? &s->sample.in[k] : &s->sample.out[k - s->rule.nin];
}

static inline bool
sound_is_real(const struct type *t)
{
    return dtype_is_float((enum dtype)t->dtype);
}

/* ---- running the reference ---- */

static inline struct view
sound_view(const struct type *local, union cell *data)
{
    struct type t = *local;
    if (t.dtype != DT_NONE) t.dtype = sound_is_real(local) ? DT_F64 : DT_I64;
    return view_dense(&t, data);
}

/* Which element of v stands at local position at[] of a result of ndim dimensions, aligned on the right. */
static inline int64_t
sound_aligned(const struct view *v, const int64_t *at, int ndim)
{
    int64_t e = 0;
    for (int d = 0; d < v->ndim; d++)
        if (v->dim[d] != 1) e += at[ndim - v->ndim + d] * v->stride[d];
    return e;
}

static inline void
sound_eltwise_at(const struct kcall *k, bool real, const int64_t *at, int64_t e)
{
    const struct eltwise *elt = &k->call->op->eltwise;
    double x[OP_OPERAND] = {0}, y = 0;
    int64_t i[OP_OPERAND] = {0}, j = 0;
    for (int n = 0; n < k->call->nin; n++) {
        const struct view *v = &k->in[n];
        if (v->dtype == DT_NONE) continue;
        const union cell *c = (const union cell *)v->data + sound_aligned(v, at, k->out->ndim);
        x[n] = v->dtype == DT_F64 ? c->f : (double)c->i;
        i[n] = v->dtype == DT_F64 ? (int64_t)c->f : c->i;
    }
    if (real)
        y = elt->f(k->call, x);
    else
        j = elt->i(k->call, i);
    union cell *out = (union cell *)k->out->data + e;
    if (k->out->dtype == DT_F64)
        out->f = real ? y : (double)j;
    else
        out->i = real ? (int64_t)y : j;
}

static inline int
sound_eltwise(const struct kcall *k)
{
    bool real = !k->call->op->eltwise.i;
    for (int n = 0; n < k->call->nin; n++) real |= k->in[n].dtype == DT_F64;
    int64_t at[MAX_DIM] = {0}, n = view_numel(k->out);
    for (int64_t e = 0; e < n; e++) {
        sound_eltwise_at(k, real, at, e);
        for (int d = k->out->ndim - 1; d >= 0 && ++at[d] == k->out->dim[d]; d--) at[d] = 0;
    }
    return 0;
}

static inline int
sound_window(const struct kcall *k)
{
    struct view from = *k->in, to = *k->out;
    int64_t skip = 0;
    TRY(k->call->op->view(k->call, k->in, &to, &skip));
    from.data = (union cell *)k->in->data + skip;
    from.ndim = to.ndim;
    memcpy(from.dim, to.dim, sizeof to.dim);
    memcpy(from.stride, to.stride, sizeof to.stride);
    view_copy(k->out, &from);
    return 0;
}

static inline int
sound_run(const struct kcall *k)
{
    const struct op *op = k->call->op;
    if (op->ref) return op->ref(k);
    return op->flags & OP_VIEW ? sound_window(k) : sound_eltwise(k);
}

/* Runs one rank: local types and where they begin, by operand; data is what sound_part() made. */
static inline int
sound_rank(struct sound *s, const struct type *local, const struct box *box, union cell *const *data)
{
    struct view v[SAMPLE_IN + OP_OUT];
    for (int k = 0; k < s->noperand; k++) {
        v[k] = sound_view(&local[k], data[k]);
        for (int d = 0; d < local[k].ndim; d++) {
            v[k].offset[d] = box[k].lo[d];
            v[k].whole[d] = sound_type(s, k)->dim[d];
        }
    }
    struct kcall k = {.call = &s->sample.call, .in = v, .out = v + s->rule.nin, .threads = 1};
    return sound_run(&k);
}

/* ---- values ---- */

/* Whole numbers: small of both signs, positive, larger, few (so that equal ones meet). */
static inline int64_t
sound_value(struct sound *s, int fill)
{
    static const struct {
        int64_t low, count;
    } of[SOUND_FILLS] = {{-4, 9}, {1, 9}, {-20, 41}, {-1, 3}};
    return of[fill].low + (int64_t)(next_random(&s->random) % (uint64_t)of[fill].count);
}

static inline union cell
sound_cell(struct sound *s, int k, int fill)
{
    const struct type *t = sound_type(s, k);
    int64_t i = sound_value(s, fill);
    if (s->sample.below[k]) i = (int64_t)(next_random(&s->random) % (uint64_t)s->sample.below[k]);
    if (t->dtype == DT_BOOL) i &= 1;
    if (t->dtype == DT_U8) i = i < 0 ? -i : i;
    return sound_is_real(t) ? (union cell){.f = (double)i} : (union cell){.i = i};
}

/* New operands, and the whole result of them. */
static inline int
sound_fill(struct sound *s, int fill)
{
    struct type type[SAMPLE_IN + OP_OUT];
    struct box box[SAMPLE_IN + OP_OUT];
    for (int k = 0; k < s->noperand; k++) {
        type[k] = *sound_type(s, k);
        box[k] = (struct box){0};
        if (k < s->rule.nin && type[k].weak) {
            s->whole[k][0] = sound_is_real(&type[k]) ? (union cell){.f = s->sample.number[k]}
                                                     : (union cell){.i = (int64_t)s->sample.number[k]};
            continue;
        }
        for (int64_t e = 0; k < s->rule.nin && e < type_numel(&type[k]); e++) s->whole[k][e] = sound_cell(s, k, fill);
    }
    return sound_rank(s, type, box, s->whole);
}

static inline int
sound_start(struct sound *s, const struct op *op, const char *text, uint64_t seed)
{
    memset(s, 0, sizeof *s);
    s->random = seed;
    s->atlas = atlas_new();
    if (!sample_read(op, text, &s->sample)) return fail(E_ARG, "%s: unreadable sample \"%s\"", op->name, text);
    TRY(call_infer(&s->arena, &s->sample.call, &s->rule));
    TRY(sig_axis(&s->arena, &s->sample.call, &s->rule, &s->list));
    s->noperand = s->rule.nin + s->rule.nout;
    for (int k = 0; k < s->noperand; k++) s->room = MAX(s->room, type_numel(sound_type(s, k)));
    s->room = 2 * s->room + 16; /* where a layout makes no sense a reference may read and write too far */
    for (int r = -1; r < SOUND_RANKS; r++) {
        union cell **data = arena_alloc(&s->arena, sizeof *data * (size_t)s->noperand);
        for (int k = 0; k < s->noperand; k++) data[k] = ARENA_ARRAY(&s->arena, union cell, s->room);
        *(r < 0 ? &s->whole : &s->part[r]) = data;
    }
    return 0;
}

static inline void
sound_end(struct sound *s)
{
    arena_fini(&s->arena);
    atlas_free(&s->atlas);
}

/* ---- parts ---- */

/* The identity of P(max) and P(min): what a rank holds that has nothing to add. */
static inline union cell
sound_identity(const struct type *t, bool max)
{
    static const int64_t least[NDTYPE] = {[DT_I32] = INT32_MIN, [DT_I64] = INT64_MIN};
    static const int64_t greatest[NDTYPE] = {[DT_BOOL] = 1, [DT_U8] = 255, [DT_I32] = INT32_MAX, [DT_I64] = INT64_MAX};
    if (sound_is_real(t)) return (union cell){.f = max ? -INFINITY : INFINITY};
    return (union cell){.i = max ? least[t->dtype] : greatest[t->dtype]};
}

static inline uint64_t
sound_hash(int k, int64_t e, int part)
{
    uint64_t state = (uint64_t)e * 1000003u + (uint64_t)k * 131u + (uint64_t)part;
    return next_random(&state);
}

/* Part `part` of `parts` of element e of operand k, which is v. One part, chosen by the element, closes the sum or
 * holds the extreme. */
static inline union cell
sound_addend(const struct type *t, union cell v, enum reduce r, int k, int64_t e, int part, int parts)
{
    int closing = (int)(sound_hash(k, e, -1) % (uint64_t)parts);
    bool unsign = t->dtype == DT_BOOL || t->dtype == DT_U8;
    if (r == RED_SUM) {
        int64_t sum = 0;
        for (int p = 0; p < parts; p++) {
            int64_t a = unsign ? 0 : (int64_t)(sound_hash(k, e, p) % 7) - 3;
            if (p == part && part != closing)
                return sound_is_real(t) ? (union cell){.f = (double)a} : (union cell){.i = a};
            if (p != closing) sum += a;
        }
        return sound_is_real(t) ? (union cell){.f = v.f - (double)sum} : (union cell){.i = v.i - sum};
    }
    if (part == closing) return v;
    union cell least = sound_identity(t, r == RED_MAX);
    uint64_t by = sound_hash(k, e, part) % 6;
    if (by == 5 || unsign) return least;
    int64_t less = r == RED_MAX ? -(int64_t)by : (int64_t)by;
    return sound_is_real(t) ? (union cell){.f = v.f + (double)less} : (union cell){.i = v.i + less};
}

/* The number of mesh position pos among those that differ on partial axes alone, and how many they are. */
static inline int
sound_addend_of(const struct layout *l, int pos, int *parts)
{
    int32_t coord[MAX_AXIS];
    int part = 0;
    *parts = 1;
    place_coord(l->place, pos, coord);
    for (int x = 0; x < l->place->naxis; x++)
        if (l->sbp[x].kind == SBP_P) {
            part = part * l->place->axis[x] + coord[x];
            *parts *= l->place->axis[x];
        }
    return part;
}

/* Walks the elements of a box: e counts inside it; returns the index in the whole. */
static inline int64_t
sound_index(const struct type *t, const struct box *b, int64_t e)
{
    int64_t index = 0, scale = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        int64_t n = b->hi[d] - b->lo[d];
        index += (b->lo[d] + e % n) * scale;
        e /= n;
        scale *= t->dim[d];
    }
    return index;
}

static inline struct type
sound_local(const struct type *t, const struct box *b)
{
    struct type local = *t;
    for (int d = 0; d < t->ndim; d++) local.dim[d] = b->hi[d] - b->lo[d];
    return local;
}

/* Gives every position its part of operand k. What lies beyond is no value that could pass. */
static inline void
sound_deal(struct sound *s, int k, const struct layout *l, int pos, const struct box *b)
{
    const struct type *t = sound_type(s, k);
    union cell *out = s->part[pos][k];
    for (int64_t e = 0; e < s->room; e++) out[e] = sound_is_real(t) ? (union cell){.f = NAN} : (union cell){.i = 1};
    if (!l) {
        out[0] = s->whole[k][0];
        return;
    }
    int parts, part = sound_addend_of(l, pos, &parts);
    enum reduce r = layout_partial(l);
    for (int64_t e = 0; e < box_numel(b, t->ndim); e++) {
        int64_t index = sound_index(t, b, e);
        out[e] = s->whole[k][index];
        if (parts > 1) out[e] = sound_addend(t, out[e], r, k, index, part, parts);
    }
}

/* Computes all ranks' parts. Layouts of operands decide what they hold, those of results only the shapes. */
static inline int
sound_ranks(struct sound *s, const struct layout *const *layout, const struct place *p)
{
    for (int pos = 0; pos < p->nrank; pos++) {
        struct type local[SAMPLE_IN + OP_OUT];
        struct box box[SAMPLE_IN + OP_OUT];
        for (int k = 0; k < s->noperand; k++) {
            const struct type *t = sound_type(s, k);
            box[k] = (struct box){0};
            if (layout[k]) layout_box(layout[k], t, pos, &box[k]);
            local[k] = layout[k] ? sound_local(t, &box[k]) : *t;
            sound_deal(s, k, layout[k], pos, &box[k]);
        }
        TRY(sound_rank(s, local, box, s->part[pos]));
    }
    return 0;
}

/* ---- joining ---- */

static inline union cell
sound_combine(enum reduce r, bool real, union cell a, union cell b)
{
    if (r == RED_SUM)
        return real ? (union cell){.f = a.f + b.f} : (union cell){.i = (int64_t)((uint64_t)a.i + (uint64_t)b.i)};
    if (real && (isnan(a.f) || isnan(b.f))) return (union cell){.f = NAN};
    bool less = real ? a.f < b.f : a.i < b.i;
    return less == (r == RED_MAX) ? b : a;
}

static inline bool
sound_same(bool real, union cell a, union cell b)
{
    if (!real) return a.i == b.i;
    if (isnan(a.f) || isnan(b.f)) return isnan(a.f) && isnan(b.f);
    if (isinf(a.f) || isinf(b.f)) return a.f == b.f;
    return fabs(a.f - b.f) <= 1e-9 * MAX(1.0, MAX(fabs(a.f), fabs(b.f)));
}

/* Do two positions hold addends of one part? */
static inline bool
sound_adds(const struct layout *l, int pos, int other)
{
    int32_t a[MAX_AXIS], b[MAX_AXIS];
    place_coord(l->place, pos, a);
    place_coord(l->place, other, b);
    for (int x = 0; x < l->place->naxis; x++)
        if (l->sbp[x].kind != SBP_P && a[x] != b[x]) return false;
    return true;
}

/* Are the parts of result k under this layout its whole value? Every replica is compared. */
static inline bool
sound_joins(struct sound *s, int k, const struct layout *l)
{
    const struct type *t = sound_type(s, k);
    bool real = sound_is_real(t);
    for (int pos = 0; pos < l->place->nrank; pos++) {
        int parts, other[SOUND_RANKS], nother = 0;
        if (sound_addend_of(l, pos, &parts)) continue;
        for (int q = pos + 1; q < l->place->nrank && parts > 1; q++)
            if (sound_adds(l, pos, q)) other[nother++] = q;
        struct box b;
        layout_box(l, t, pos, &b);
        for (int64_t e = 0; e < box_numel(&b, t->ndim); e++) {
            union cell v = s->part[pos][k][e];
            for (int i = 0; i < nother; i++) v = sound_combine(layout_partial(l), real, v, s->part[other[i]][k][e]);
            if (!sound_same(real, v, s->whole[k][sound_index(t, &b, e)])) return false;
        }
    }
    return true;
}

static inline bool
sound_holds(struct sound *s, const struct place *p, const struct layout *const *layout)
{
    for (int fill = 0; fill < SOUND_FILLS; fill++) {
        if (sound_fill(s, fill) || sound_ranks(s, layout, p)) return false;
        for (int k = s->rule.nin; k < s->noperand; k++)
            if (!sound_joins(s, k, layout[k])) return false;
    }
    return true;
}

/* ---- in words ---- */

/* "S(0), B -> P": of n entries an operand, those of one axis; "-" where an operand takes no part. */
static inline const char *
sound_text(const struct sound *s, const struct sbp *v)
{
    static struct str text;
    str_clear(&text);
    for (int k = 0; k < s->noperand; k++) {
        str_add(&text, k == 0 ? "" : k == s->rule.nin ? " -> " : ", ");
        if (s->rule.operand[k].ignored)
            str_add(&text, "-");
        else
            sbp_print(v[k], &text);
    }
    return str_text(&text);
}

static inline const char *
sound_layout_text(const struct sound *s, const struct layout *const *layout)
{
    static struct str text;
    str_clear(&text);
    for (int k = 0; k < s->noperand; k++) {
        str_add(&text, k == 0 ? "" : k == s->rule.nin ? " -> " : ", ");
        if (layout[k])
            layout_print(layout[k], &text);
        else
            str_add(&text, "-");
    }
    return str_text(&text);
}

/* ---- every derived signature ---- */

struct sound_tally {
    int proved, failed;
};

static inline const struct place *
sound_place(struct sound *s, int naxis, const int32_t *axis)
{
    const struct place *p = NULL;
    int32_t rank[SOUND_RANKS];
    for (int i = 0; i < SOUND_RANKS; i++) rank[i] = i;
    int status = place_new(s->atlas, 0, naxis, axis, rank, &p);
    assert(!status);
    UNUSED(status);
    return p;
}

static inline void
sound_try(struct sound *s, const struct place *p, const int *choice, const uint8_t *order, struct sound_tally *tally)
{
    const struct layout *layout[SAMPLE_IN + OP_OUT];
    if (!sig_layouts(s->atlas, p, &s->sample.call, &s->rule, &s->list, choice, order, layout)) return;
    bool holds = sound_holds(s, p, layout) && !sig_check(&s->arena, &s->sample.call, &s->rule, layout);
    tally->proved += holds;
    tally->failed += !holds;
    if (!holds) diag("%s: %s does not hold", s->sample.call.op->name, sound_layout_text(s, layout));
}

/* All combinations of signatures on a mesh of one or two axes, in both cutting orders. */
static inline struct sound_tally
sound_each_derived(struct sound *s, int naxis, const int32_t *axis)
{
    static const uint8_t turned[MAX_AXIS] = {1, 0};
    const struct place *p = sound_place(s, naxis, axis);
    struct sound_tally tally = {0};
    int choice[MAX_AXIS] = {0};
    for (choice[0] = 0; choice[0] < s->list.nsig; choice[0]++) {
        if (naxis == 1) sound_try(s, p, choice, NULL, &tally);
        for (choice[1] = 0; choice[1] < s->list.nsig && naxis == 2; choice[1]++) {
            sound_try(s, p, choice, NULL, &tally);
            sound_try(s, p, choice, turned, &tally);
        }
    }
    return tally;
}

#endif
