/* trial.h - for tests of kernels: makes the operands of an operator's sample in various memory layouts, and compares
 * results. The caller owns a trial from trial_open to trial_close. */
#ifndef RILLE_T_TRIAL_H
#define RILLE_T_TRIAL_H

#include "t/lib/kernel/exec.h"
#include "sbp/infer.h"

#include <math.h>

enum memory {
    DENSE,      /* row-major, contiguous */
    GAPS,       /* every second element */
    TURNED,     /* dimensions laid out in reverse order */
    COLUMNS,    /* the last two dimensions in reverse order: column-major matrices */
    FAR,        /* each element on a separate page; beyond FAR_MANY elements, on a separate cache line */
    ASTRAY,     /* contiguous, but not aligned to vectors */
    REPEATED,   /* every row is the same row of memory */
    OVERLAPPED, /* each row begins one element after the row before */
    NMEMORY
};
static const char *const memory_text[] = {"dense",     "with gaps", "column-major", "matrices column by column",
                                          "far apart", "astray",    "repeated",     "overlapped"};

struct tensor {
    struct view view;
    void *memory;
};
struct trial {
    struct sample sample;
    struct arena arena;
    struct rule rule;
    struct tensor in[SAMPLE_IN], got[OP_OUT], again[OP_OUT], want[OP_OUT];
};

/* ---- making operands ---- */

/* maximum number of elements that FAR stores on separate pages, because more would need too much memory
 * (f32{300,600}: 740 MB) */
enum { FAR_MANY = 1024 };

static inline void
lay_out(struct view *v, enum memory m)
{
    int64_t far = view_numel(v) <= FAR_MANY ? 1031 : 67, stride = m == GAPS ? 2 : m == FAR ? far : 1;
    for (int i = 0; i < v->ndim; i++) {
        int d = m == TURNED ? i : v->ndim - 1 - i;
        if (m == COLUMNS && i < 2 && v->ndim > 1) d = v->ndim - 2 + i;
        v->stride[d] = stride;
        stride *= v->dim[d];
    }
    if (v->ndim > 1 && m == REPEATED) v->stride[0] = 0;
    if (v->ndim > 1 && m == OVERLAPPED) v->stride[0] = 1;
}

static inline int64_t
room_of(const struct view *v)
{
    int64_t n = 1;
    for (int d = 0; d < v->ndim; d++) n += v->dim[d] ? (v->dim[d] - 1) * v->stride[d] : 0;
    return n;
}

/* Allocator of the operands and results of trials; NULL: the heap. Memory of this allocator is not freed. */
static void *(*trial_memory)(size_t bytes);

static inline void *
trial_take(size_t bytes)
{
    return trial_memory ? trial_memory(bytes) : must_alloc(bytes);
}

static inline void
trial_give(void *p)
{
    if (!trial_memory) free(p);
}

static inline void
make_tensor(struct tensor *t, const struct type *type, enum memory m)
{
    t->view = view_dense(type, NULL);
    if (!type->weak) lay_out(&t->view, m);
    size_t width = dtype_bytes(type->dtype);
    t->memory = trial_take((size_t)(room_of(&t->view) + 1) * width);
    t->view.data = (char *)t->memory + (m == ASTRAY && !type->weak ? width : 0);
}

static inline int64_t
address_of(const struct view *v, int64_t i)
{
    int64_t at = 0;
    for (int d = v->ndim - 1; d >= 0; i /= v->dim[d--]) at += i % v->dim[d] * v->stride[d];
    return at;
}

static bool strange; /* true: every fifth value is NaN, infinite, zero of either sign, or subnormal */

/* true: integers without given bounds are limits of dtypes, and all pairs of such values of two operands occur */
static bool limits;
static const int64_t at_limits[] = {0,         1,         -1,        2,         -3,
                                    127,       128,       255,       256,       46341,
                                    -46341,    65536,     INT32_MAX, INT32_MIN, INT32_MAX - 1,
                                    1LL << 31, 1LL << 32, INT64_MIN, INT64_MAX, 0x123456789abcdef};

static inline double
strange_value(uint64_t r)
{
    static const double value[] = {NAN, INFINITY, -INFINITY, 0, -0.0, 0x1p-140, -0x1p-149};
    return value[r % countof(value)];
}

static inline void
choose_values(struct trial *t, int k, uint64_t *random)
{
    const struct sample *s = &t->sample;
    const struct view *v = &t->in[k].view;
    bool real = dtype_is_float((enum dtype)v->dtype);
    for (int64_t i = 0; i < view_numel(v); i++) {
        double u = (double)(next_random(random) >> 11) * 0x1p-53;
        double f = s->above[k] != 0 ? s->above[k] + u : u * 4 - 2;
        int64_t n = (int64_t)s->above[k] + (int64_t)(next_random(random) % (uint64_t)(s->below[k] ? s->below[k] : 5));
        if (strange && next_random(random) % 5 == 0) f = strange_value(next_random(random));
        if (limits) n = at_limits[(i / (k == 1 ? (int)countof(at_limits) - 1 : 1) + k) % (int)countof(at_limits)];
        if (s->in[k].weak) f = s->number[k], n = (int64_t)f;
        if (real)
            elem_set_f(v->dtype, v->data, address_of(v, i), f);
        else
            elem_set_i(v->dtype, v->data, address_of(v, i), v->dtype == DT_BOOL ? n % 2 : n);
    }
}

static const struct type source_shape = {.ndim = 2, .dim = {5, 7}};

/* Replaces "f32" by `dtype` in a sample. Returns false if the operator does not accept the dtype. */
static inline bool
trial_retype(const struct op *op, const char *text, const char *dtype, char *to, size_t capacity)
{
    struct sample s;
    struct arena a = {0};
    struct rule rule;
    size_t n = 0;
    while (*text && n + 8 < capacity) {
        bool here = !strncmp(text, "f32", 3);
        n += (size_t)snprintf(to + n, capacity - n, "%.*s", here ? 8 : 1, here ? dtype : text);
        text += here ? 3 : 1;
    }
    if (!sample_read(op, to, &s)) return false;
    if (op->flags & OP_SOURCE) s.call.out[0] = source_shape;
    bool good = op->shape.rule || op->shape.make_rule || op->flags & OP_SOURCE;
    good = good && !call_infer(&a, &s.call, &rule);
    arena_fini(&a);
    return good;
}

/* Makes a trial of a sample. Returns false if the sample cannot be read, or its types cannot be inferred (those of
 * composites cannot). */
static inline bool
trial_open(struct trial *t, const struct op *op, const char *text, enum memory m, uint64_t seed)
{
    memset(t, 0, sizeof *t);
    if (!sample_read(op, text, &t->sample)) return ok(false, "%s: sample \"%s\" can be read", op->name, text);
    struct call *c = &t->sample.call;
    if (op->flags & OP_SOURCE) c->out[0] = source_shape;
    if (!op->shape.rule && !op->shape.make_rule && !(op->flags & OP_SOURCE)) return false;
    if (call_infer(&t->arena, c, &t->rule)) {
        ok(false, "%s %s has a type", op->name, text);
        diag("%s", err_text());
        return false;
    }
    for (int k = 0; k < c->nin; k++) {
        if (c->in[k].dtype == DT_NONE) continue;
        make_tensor(&t->in[k], &c->in[k], m);
        choose_values(t, k, &seed);
    }
    for (int k = 0; k < c->nout; k++) {
        make_tensor(&t->got[k], &c->out[k], DENSE);
        make_tensor(&t->again[k], &c->out[k], DENSE);
        make_tensor(&t->want[k], &c->out[k], DENSE);
    }
    return true;
}

static inline void
trial_close(struct trial *t)
{
    for (int k = 0; k < SAMPLE_IN; k++) trial_give(t->in[k].memory);
    for (int k = 0; k < OP_OUT; k++) {
        trial_give(t->got[k].memory);
        trial_give(t->again[k].memory);
        trial_give(t->want[k].memory);
    }
    arena_fini(&t->arena);
}

static inline void
kcall_of(struct trial *t, const struct call *c, struct tensor *out, struct view *view, void **data, struct kcall *k)
{
    for (int i = 0; i < c->nin + c->nout; i++) {
        view[i] = i < c->nin ? t->in[i].view : out[i - c->nin].view;
        data[i] = view[i].data;
    }
    *k = (struct kcall){.call = c, .in = view, .out = view + c->nin, .threads = 1, .piece = 3};
}

/* Computes the results by the reference; writes to t->want. */
static inline int
trial_reference(struct trial *t)
{
    struct view view[SAMPLE_IN + OP_OUT];
    void *data[SAMPLE_IN + OP_OUT];
    struct kcall k;
    kcall_of(t, &t->sample.call, t->want, view, data, &k);
    return ref_run(&k);
}

/* Computes a call with the operands of t and writes the results to `out`. variant: receives the name of the kernel
 * variant; may be NULL. */
static inline int
trial_run(struct trial *t, const struct call *c, int threads, struct tensor *out, const char **variant)
{
    struct view view[SAMPLE_IN + OP_OUT];
    void *data[SAMPLE_IN + OP_OUT];
    struct kcall k;
    kcall_of(t, c, out, view, data, &k);
    k.threads = threads;
    /* clears data pointers, because exec_new() must not read data */
    for (int i = 0; i < c->nin + c->nout; i++) view[i].data = NULL;
    return kcall_once(&k, data, data + c->nin, variant);
}

static inline double
tolerance(enum dtype d)
{
    static const double by_dtype[NDTYPE] = {[DT_BF16] = 2e-2, [DT_F16] = 4e-3, [DT_F32] = 2e-5, [DT_F64] = 1e-11};
    return by_dtype[d];
}

/* Returns true if all elements of both tensors have the same bits. All NaNs count as equal. */
static inline bool
trial_same(const struct view *got, const struct view *want)
{
    bool same = true;
    for (int64_t i = 0; i < view_numel(want) && same; i++) {
        const char *x = got->data, *y = want->data;
        int64_t at = address_of(want, i);
        size_t bytes = dtype_bytes((enum dtype)want->dtype);
        bool none = dtype_is_float((enum dtype)want->dtype) && isnan(elem_get_f(want->dtype, y, at));
        same = none ? isnan(elem_get_f(got->dtype, x, at))
                    : !memcmp(x + (size_t)at * bytes, y + (size_t)at * bytes, bytes);
    }
    return same;
}

/* Returns the largest difference of two tensors, relative to the largest value and in units of the tolerance, so a
 * difference of at most 1 passes. Integers must be equal. */
static inline double
distance(const struct view *got, const struct view *want)
{
    double largest = 1, worst = 0;
    int64_t n = view_numel(want);
    if (!dtype_is_float((enum dtype)want->dtype)) return trial_same(got, want) ? 0 : INFINITY;
    for (int64_t i = 0; i < n; i++) {
        double w = elem_get_f(want->dtype, want->data, i);
        if (isfinite(w)) largest = fmax(largest, fabs(w));
    }
    for (int64_t i = 0; i < n; i++) {
        double g = elem_get_f(got->dtype, got->data, i), w = elem_get_f(want->dtype, want->data, i);
        if (g == w || (isnan(g) && isnan(w))) continue;
        double allowed = tolerance(got->dtype) * largest;
        worst = fmax(worst, allowed > 0 && isfinite(g - w) ? fabs(g - w) / allowed : INFINITY);
    }
    return worst;
}

#endif
