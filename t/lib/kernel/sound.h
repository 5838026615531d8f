/* sound.h - checks that an SBP signature is sound: runs the ranks in sequence and joins the results.
 *
 * sound_start() reads an operator record and a sample, and computes the complete result once. sound_holds() shards
 * the operands by the given layouts, computes each rank's shards with the reference, joins the shards and compares
 * them with the complete result. It splits partial values into uneven addends; some addends are the identity with
 * which a redistribution would fill. All values are multiples of 1/4, so sums are exact. sound_each_derived() calls
 * sound_holds() for every signature derived from the rule. */
#ifndef RILLE_T_SOUND_H
#define RILLE_T_SOUND_H

#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "sbp/sig.h"
#include "sbp/infer.h"
#include "kernels/exec/sample.h"
#include "t/lib/tap.h"
#include "runtime/tensor/atlas.h"

enum { SOUND_RANKS = 16 };

/* An element: f64 for float dtypes, i64 for every other dtype. References compute in these two types. */
union cell {
    double f;
    int64_t i;
};

struct sound {
    struct arena arena;
    struct atlas *atlas;
    struct sample sample;
    struct rule rule;
    struct sig_list list; /* signatures on one mesh axis */
    int noperand;
    uint64_t random;
    bool shares;         /* true: searches take only a share of the combinations (t/lib/tap.h) */
    int fill;            /* kind of the operands' values, as an index in sound_kinds */
    int round;           /* number of computations with this kind of values before the current one */
    int64_t capacity;    /* cells per buffer: more than twice the largest operand */
    union cell **global; /* by operand and result: its global buffer */
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

/* Returns the index of the element of v that broadcasting uses at position at[] of a result with ndim dimensions.
 * Broadcasting aligns the last dimensions. */
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

/* Returns true if the shard contains all elements of the window. If the layouts form no signature, the window can
 * reach outside. */
static inline bool
sound_inside(const struct view *part, const struct view *window, int64_t skip)
{
    int64_t lo = skip, hi = skip;
    for (int d = 0; d < window->ndim; d++) {
        int64_t span = (window->dim[d] - 1) * window->stride[d];
        if (span < 0)
            lo += span;
        else
            hi += span;
    }
    return view_numel(window) == 0 || (lo >= 0 && hi < view_numel(part));
}

/* Runs a view operator: copies the elements that the view selects. If strides cannot express the view (a reshape),
 * copies all elements in order. */
static inline int
sound_window(const struct kcall *k)
{
    struct view from = *k->in, to = *k->out;
    int64_t skip = 0;
    if (k->call->op->host.view(k->call, k->in, &to, &skip)) {
        if (view_numel(k->in) != view_numel(&to)) return fail(E_SHAPE, "a view of other elements");
        memcpy(k->out->data, k->in->data, sizeof(union cell) * (size_t)view_numel(&to));
        return 0;
    }
    if (!sound_inside(k->in, &to, skip)) return fail(E_SHAPE, "a view of elements that are not there");
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
    if (op->host.ref) return op->host.ref(k);
    return op->flags & OP_VIEW ? sound_window(k) : sound_eltwise(k);
}

/* Runs the reference on one rank. local: local type, by operand and result; box: position of the shard in the
 * tensor; data: the shard's cells. */
static inline int
sound_rank(struct sound *s, const struct type *local, const struct box *box, union cell *const *data)
{
    struct view v[SAMPLE_IN + OP_OUT];
    for (int k = 0; k < s->noperand; k++) {
        v[k] = sound_view(&local[k], data[k]);
        for (int d = 0; d < local[k].ndim; d++) {
            v[k].offset[d] = box[k].lo[d];
            v[k].global[d] = sound_type(s, k)->dim[d];
        }
    }
    struct finding find = {0};
    struct kcall k = {.call = &s->sample.call, .in = v, .out = v + s->rule.nin, .threads = 1, .find = &find};
    int status = sound_run(&k);
    return !status && find.at ? s->sample.call.op->host.say(&k, &find) : status;
}

/* ---- values ---- */

/* Kinds of values. A value is an integer from low to low + count - 1, divided by scale. Several kinds are tried,
 * because a wrong signature may hold by chance for one of them. */
static const struct sound_kind {
    int low, count, scale;
    int zeros; /* of 8 values, the number that is replaced by zero; -1: no value is zero */
    bool odd;  /* one element differs from the rest: nonzero among zeros, or zero among nonzeros */
} sound_kinds[] = {
    {-4, 9, 1, 0, false},  {1, 9, 1, 0, false},  {-20, 41, 1, 0, false}, {-1, 3, 1, 0, false},
    {-9, 19, 4, 0, false}, {-4, 9, 1, 7, false}, {1, 1, 1, -1, true},    {1, 1, 1, 8, true},
    {-5, 9, 1, -1, true},  {1, 99, 1, 0, false}, {-19, 9, 4, 0, false},  {-4, 9, 2, 7, false},
};
enum { SOUND_FILLS = countof(sound_kinds) };

static inline int64_t
sound_value(struct sound *s)
{
    const struct sound_kind *kind = &sound_kinds[s->fill];
    int64_t i = kind->low + (int64_t)(next_random(&s->random) % (uint64_t)kind->count);
    if (kind->zeros < 0) return i ? i : 1;
    return (int)(next_random(&s->random) % 8) < kind->zeros ? 0 : i;
}

/* Returns `other`, or sometimes the value of one of the call's number operands. Elements that equal such a number
 * are edge cases. */
static inline double
sound_number(struct sound *s, double other)
{
    int k = (int)(next_random(&s->random) % 64);
    return k < s->rule.nin && s->sample.in[k].weak ? s->sample.number[k] : other;
}

static inline union cell
sound_cell(struct sound *s, int k)
{
    const struct type *t = sound_type(s, k);
    int64_t i = sound_value(s);
    if (sound_is_real(t)) return (union cell){.f = sound_number(s, (double)i / sound_kinds[s->fill].scale)};
    if (s->sample.below[k]) return (union cell){.i = (int64_t)(next_random(&s->random) % (uint64_t)s->sample.below[k])};
    if (s->sample.above[k]) return (union cell){.i = (int64_t)s->sample.above[k] + (i < 0 ? -i : i)};
    if (t->dtype == DT_BOOL) return (union cell){.i = i > 0 || sound_kinds[s->fill].zeros < 0};
    i = (int64_t)sound_number(s, (double)i);
    return (union cell){.i = t->dtype == DT_U8 && i < 0 ? -i : i};
}

static inline void
sound_fill_operand(struct sound *s, int k)
{
    const struct type *t = sound_type(s, k);
    const struct sound_kind *kind = &sound_kinds[s->fill];
    int64_t n = type_numel(t);
    for (int64_t e = 0; e < n; e++) s->global[k][e] = sound_cell(s, k);
    if (!kind->odd || !n || s->sample.below[k] || s->sample.above[k]) return;
    union cell *odd = &s->global[k][next_random(&s->random) % (uint64_t)n];
    *odd = kind->zeros < 0 ? (union cell){0} : sound_is_real(t) ? (union cell){.f = 1} : (union cell){.i = 1};
}

/* Draws new operands and computes the complete result. */
static inline int
sound_fill(struct sound *s, int fill)
{
    struct type type[SAMPLE_IN + OP_OUT];
    struct box box[SAMPLE_IN + OP_OUT];
    s->fill = fill;
    for (int k = 0; k < s->noperand; k++) {
        type[k] = *sound_type(s, k);
        box[k] = (struct box){0};
        if (k >= s->rule.nin) continue;
        if (!type[k].weak)
            sound_fill_operand(s, k);
        else if (sound_is_real(&type[k]))
            s->global[k]->f = s->sample.number[k];
        else
            s->global[k]->i = (int64_t)s->sample.number[k];
    }
    return sound_rank(s, type, box, s->global);
}

static inline int
sound_start(struct sound *s, const struct op *op, const char *text, uint64_t seed)
{
    memset(s, 0, sizeof *s);
    s->random = seed;
    s->atlas = atlas_new();
    if (!sample_read(op, text, &s->sample)) return fail(E_ARG, "%s: unreadable sample \"%s\"", op->name, text);
    TRY(call_infer(&s->arena, &s->sample.call, &s->rule));
    TRY(sig_axis(&s->arena, &s->sample.call, &s->rule, NULL, &s->list));
    s->noperand = s->rule.nin + s->rule.nout;
    for (int k = 0; k < s->noperand; k++) s->capacity = MAX(s->capacity, type_numel(sound_type(s, k)));
    /* leaves room beyond the operands, because a reference may access cells there if the layouts form no signature */
    s->capacity = 2 * s->capacity + 16;
    for (int r = -1; r < SOUND_RANKS; r++) {
        union cell **data = arena_alloc(&s->arena, sizeof *data * (size_t)s->noperand);
        for (int k = 0; k < s->noperand; k++) data[k] = ARENA_ARRAY(&s->arena, union cell, s->capacity);
        *(r < 0 ? &s->global : &s->part[r]) = data;
    }
    return 0;
}

static inline void
sound_end(struct sound *s)
{
    arena_fini(&s->arena);
    atlas_free(&s->atlas);
}

/* ---- shards ---- */

/* Returns the addend of a rank that contributes nothing to a P(max) or P(min): the identity of the reduction. */
static inline union cell
sound_identity(const struct type *t, bool max)
{
    static const int64_t least[NDTYPE] = {[DT_I32] = INT32_MIN, [DT_I64] = INT64_MIN};
    static const int64_t greatest[NDTYPE] = {[DT_BOOL] = 1, [DT_U8] = 255, [DT_I32] = INT32_MAX, [DT_I64] = INT64_MAX};
    if (sound_is_real(t)) return (union cell){.f = max ? -INFINITY : INFINITY};
    return (union cell){.i = max ? least[t->dtype] : greatest[t->dtype]};
}

static inline uint64_t
sound_hash(const struct sound *s, int k, int64_t e, int part)
{
    uint64_t state = (uint64_t)e * 1000003u + (uint64_t)k * 131u + (uint64_t)part + (uint64_t)s->fill * 7919u +
                     (uint64_t)s->round * 104729u;
    return next_random(&state);
}

/* Returns v plus `steps` times the distance between neighbouring values of the current kind. */
static inline union cell
sound_plus(const struct sound *s, const struct type *t, union cell v, int64_t steps)
{
    if (sound_is_real(t)) return (union cell){.f = v.f + (double)steps / sound_kinds[s->fill].scale};
    return (union cell){.i = v.i + steps};
}

/* Returns addend number `part` of the `parts` addends of element e of operand k, whose complete value is v. A hash
 * of the element selects one addend: for a sum, the addend that makes the sum exact; otherwise, the one that holds
 * the maximum or minimum. */
static inline union cell
sound_addend(const struct sound *s, union cell v, enum reduce r, int k, int64_t e, int part, int parts)
{
    const struct type *t = sound_type(s, k);
    int closing = (int)(sound_hash(s, k, e, -1) % (uint64_t)parts);
    bool no_sign = t->dtype == DT_BOOL || t->dtype == DT_U8;
    if (r == RED_SUM) {
        int64_t sum = 0, own = 0;
        for (int p = 0; p < parts && !no_sign; p++) {
            int64_t a = p == closing ? 0 : (int64_t)(sound_hash(s, k, e, p) % 7) - 3;
            sum += a;
            if (p == part) own = a;
        }
        return part == closing ? sound_plus(s, t, v, -sum) : sound_plus(s, t, (union cell){0}, own);
    }
    if (part == closing) return v;
    int64_t by = (int64_t)(sound_hash(s, k, e, part) % 6);
    if (by == 5 || (no_sign && by > 2)) return sound_identity(t, r == RED_MAX);
    if (no_sign) return v;
    return sound_plus(s, t, v, r == RED_MAX ? -by : by);
}

/* Returns the number of the addend at mesh position pos: its index among the positions that differ only on partial
 * axes. Sets *parts to the number of these positions. */
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

/* Returns an element's index in the global tensor. e: index of the element within box b. */
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

/* Writes a position's shard of operand k. Cells beyond the shard are NaN or 1, so that a read past the end is
 * detected. */
static inline void
sound_deal(struct sound *s, int k, const struct layout *l, int pos, const struct box *b)
{
    const struct type *t = sound_type(s, k);
    union cell *out = s->part[pos][k];
    for (int64_t e = 0; e < s->capacity; e++) out[e] = sound_is_real(t) ? (union cell){.f = NAN} : (union cell){.i = 1};
    if (!l) {
        out[0] = s->global[k][0];
        return;
    }
    int parts, part = sound_addend_of(l, pos, &parts);
    enum reduce r = layout_partial(l);
    for (int64_t e = 0; e < box_numel(b, t->ndim); e++) {
        int64_t index = sound_index(t, b, e);
        out[e] = s->global[k][index];
        if (parts > 1) out[e] = sound_addend(s, out[e], r, k, index, part, parts);
    }
}

/* Computes the results' shards on all ranks from the operands' shards. A result's layout determines only the shapes
 * of its shards. */
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

/* Compares a, which is a sum of addends, with b. size: sum of the addends' absolute values, which scales the
 * tolerance. Two sums that are not finite count as equal, because infinite addends of both signs give NaN. */
static inline bool
sound_same(bool real, bool sum, union cell a, double size, union cell b)
{
    if (!real) return a.i == b.i;
    if (sum && !isfinite(a.f) && !isfinite(b.f)) return true;
    if (isnan(a.f) || isnan(b.f)) return isnan(a.f) && isnan(b.f);
    if (isinf(a.f) || isinf(b.f)) return a.f == b.f;
    return fabs(a.f - b.f) <= 1e-9 * MAX(1.0, MAX(size, fabs(b.f)));
}

/* Returns true if two positions hold addends of the same shard. */
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

/* Returns true if the shards of result k, joined by this layout, equal the global result. Compares every replica. */
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
            double size = real ? fabs(v.f) : 0;
            for (int i = 0; i < nother; i++) {
                v = sound_combine(layout_partial(l), real, v, s->part[other[i]][k][e]);
                if (real) size += fabs(s->part[other[i]][k][e].f);
            }
            bool sum = layout_partial(l) == RED_SUM;
            if (!sum) size = fabs(v.f);
            if (sum && t->dtype == DT_I32) v.i = (int32_t)v.i; /* i32 sums wrap */
            if (!sound_same(real, sum, v, size, s->global[k][sound_index(t, &b, e)])) return false;
        }
    }
    return true;
}

static inline bool
sound_holds(struct sound *s, const struct place *p, const struct layout *const *layout)
{
    /* tries fewer kinds of values on meshes with two axes, which test only how shards are cut */
    int nfill = p->naxis > 1 ? 4 : SOUND_FILLS;
    for (int fill = 0; fill < nfill; fill++) {
        if (sound_fill(s, fill) || sound_ranks(s, layout, p)) return false;
        for (int k = s->rule.nin; k < s->noperand; k++)
            if (!sound_joins(s, k, layout[k])) return false;
    }
    return true;
}

/* ---- text ---- */

/* Prints a combination as "S(0), B -> P": by operand and result, SBP entry v or, if given, the layout. An ignored
 * operand is "-". */
static inline const char *
sound_combination(const struct sound *s, const struct sbp *v, const struct layout *const *layout)
{
    static struct str text;
    str_clear(&text);
    for (int k = 0; k < s->noperand; k++) {
        str_add(&text, k == 0 ? "" : k == s->rule.nin ? " -> " : ", ");
        if (v ? s->rule.operand[k].ignored : !layout[k])
            str_add(&text, "-");
        else if (v)
            sbp_print(v[k], &text);
        else
            layout_print(layout[k], &text);
    }
    return str_text(&text);
}

static inline const char *
sound_layout_text(const struct sound *s, const struct layout *const *layout)
{
    return sound_combination(s, NULL, layout);
}

/* ---- every derived signature ---- */

struct sound_tally {
    int proved, failed;
};

/* Lists the signatures for a placement, with the units that the operands' layouts give. given NULL: no layouts. */
static inline void
sound_list(struct sound *s, const struct place *p, const struct layout *const *given)
{
    int32_t unit[RULE_FACTOR];
    sig_units(&s->rule, p, given, s->rule.nin, unit);
    int status = sig_axis(&s->arena, &s->sample.call, &s->rule, unit, &s->list);
    assert(!status);
    UNUSED(status);
}

/* Makes a placement, and lists the signatures for it. */
static inline const struct place *
sound_place(struct sound *s, int naxis, const int32_t *axis)
{
    const struct place *p = NULL;
    int32_t rank[SOUND_RANKS];
    for (int i = 0; i < SOUND_RANKS; i++) rank[i] = i;
    int status = place_new(s->atlas, 0, naxis, axis, rank, &p);
    assert(!status);
    UNUSED(status);
    sound_list(s, p, NULL);
    return p;
}

static inline void
sound_try(struct sound *s, const struct place *p, const int *choice, const uint8_t *order, struct sound_tally *tally)
{
    const struct layout *layout[SAMPLE_IN + OP_OUT];
    if (!sig_layouts(s->atlas, p, &s->sample.call, &s->rule, &s->list, choice, order, layout)) return;
    if (s->shares && tally->proved + tally->failed > 0 && !share_next()) return;
    bool holds = sound_holds(s, p, layout) && !sig_check(&s->arena, &s->sample.call, &s->rule, layout);
    tally->proved += holds;
    tally->failed += !holds;
    if (!holds) diag("%s: %s does not hold", s->sample.call.op->name, sound_layout_text(s, layout));
}

/* Checks all combinations of derived signatures on a mesh of one or two axes. If two axes split the same dimension,
 * tries both orders. With s->shares, checks the first combination and a share of the others. */
static inline struct sound_tally
sound_each_derived(struct sound *s, int naxis, const int32_t *axis)
{
    static const uint8_t reversed[MAX_AXIS] = {1, 0};
    const struct place *p = sound_place(s, naxis, axis);
    struct sound_tally tally = {0};
    int choice[MAX_AXIS] = {0};
    for (choice[0] = 0; choice[0] < s->list.nsig; choice[0]++) {
        if (naxis == 1) sound_try(s, p, choice, NULL, &tally);
        for (choice[1] = 0; choice[1] < s->list.nsig && naxis == 2; choice[1]++) {
            sound_try(s, p, choice, NULL, &tally);
            sound_try(s, p, choice, reversed, &tally);
        }
    }
    return tally;
}

#endif
