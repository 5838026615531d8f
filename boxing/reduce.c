/* reduce.c - inner loops of box steps: copies, reductions and fills.
 *
 * A reduction processes its sources block by block, so that the running result stays in the first-level cache: each
 * source is read once, and the result is written once. Every operation rounds to the dtype of the operands, so a sum
 * has the same bits however it is cut. Partials of halves are f32 (layout_dtype), and the complete sum is rounded to
 * a half once. max and min propagate NaN.
 *
 * GB/s of result, sums of two f32 on one core and on two of an AMD EPYC (Zen 5, 1 MiB L2, 32 MiB L3 for both):
 *
 *     result                     256 KiB    8 MiB    16 MiB    32 MiB    16 MiB, two cores
 *     SSE2                            50       27        15        12
 *     AVX-512, as here                74       31        18        16      25 to 27
 *     AVX-512, stored past caches              31        17        16      25 to 27
 *
 * Non-temporal stores (movnt), which bypass the caches, gain nothing, and the next reader would miss the caches. So
 * plain stores are used. Copies use memcpy, which chooses the kind of store by itself. */
#pragma GCC optimize("O3", "no-trapping-math") /* reductions spend their time in the loops below */
#include "boxing/reduce.h"
#include "boxing/box.h"

#include "runtime/tensor/half.h"
#include "runtime/base/simd.h"
#include "runtime/base/stop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 2048 }; /* elements per block: two blocks of f64 fit into a first-level cache */

typedef void combine_fn(void *dst, const void *a, const void *b, int64_t n);

/* Computes to[i] = x op y from a[i] and b[i]; arrays are contiguous. `to` may be `a`, because elements are
 * independent (INDEPENDENT). */
#define COMBINE(name, type, expr)                                                                                      \
    static VECTOR void name(void *dst, const void *a, const void *b, int64_t n)                                        \
    {                                                                                                                  \
        type *to = dst;                                                                                                \
        const type *p = a, *q = b;                                                                                     \
        INDEPENDENT                                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            type x = p[i], y = q[i];                                                                                   \
            to[i] = (type)(expr);                                                                                      \
        }                                                                                                              \
    }

COMBINE(both_sum_f32, float, x + y)
COMBINE(both_max_f32, float, x > y || x != x ? x : y)
COMBINE(both_min_f32, float, x < y || x != x ? x : y)
COMBINE(both_sum_f64, double, x + y)
COMBINE(both_max_f64, double, x > y || x != x ? x : y)
COMBINE(both_min_f64, double, x < y || x != x ? x : y)
COMBINE(both_max_bf16, uint16_t, from_bf16(x) > from_bf16(y) || from_bf16(x) != from_bf16(x) ? x : y)
COMBINE(both_min_bf16, uint16_t, from_bf16(x) < from_bf16(y) || from_bf16(x) != from_bf16(x) ? x : y)
COMBINE(both_max_f16, uint16_t, from_f16(x) > from_f16(y) || from_f16(x) != from_f16(x) ? x : y)
COMBINE(both_min_f16, uint16_t, from_f16(x) < from_f16(y) || from_f16(x) != from_f16(x) ? x : y)
COMBINE(both_sum_i32, int32_t, (uint32_t)x + (uint32_t)y) /* unsigned, so that overflow wraps */
COMBINE(both_max_i32, int32_t, x > y ? x : y)
COMBINE(both_min_i32, int32_t, x < y ? x : y)
COMBINE(both_sum_i64, int64_t, (uint64_t)x + (uint64_t)y)
COMBINE(both_max_i64, int64_t, x > y ? x : y)
COMBINE(both_min_i64, int64_t, x < y ? x : y)
COMBINE(both_sum_u8, uint8_t, x + y)
COMBINE(both_max_u8, uint8_t, x > y ? x : y)
COMBINE(both_min_u8, uint8_t, x < y ? x : y)
COMBINE(both_any_bool, uint8_t, (x | y))
COMBINE(both_all_bool, uint8_t, (x & y))

static combine_fn *const combine[NDTYPE][NREDUCE] = {
    [DT_F32] = {[RED_SUM] = both_sum_f32, [RED_MAX] = both_max_f32, [RED_MIN] = both_min_f32},
    [DT_F64] = {[RED_SUM] = both_sum_f64, [RED_MAX] = both_max_f64, [RED_MIN] = both_min_f64},
    [DT_BF16] = {[RED_MAX] = both_max_bf16, [RED_MIN] = both_min_bf16},
    [DT_F16] = {[RED_MAX] = both_max_f16, [RED_MIN] = both_min_f16},
    [DT_I32] = {[RED_SUM] = both_sum_i32, [RED_MAX] = both_max_i32, [RED_MIN] = both_min_i32},
    [DT_I64] = {[RED_SUM] = both_sum_i64, [RED_MAX] = both_max_i64, [RED_MIN] = both_min_i64},
    [DT_U8] = {[RED_SUM] = both_sum_u8, [RED_MAX] = both_max_u8, [RED_MIN] = both_min_u8},
    [DT_BOOL] = {[RED_SUM] = both_any_bool, [RED_MAX] = both_any_bool, [RED_MIN] = both_all_bool},
};

/* ---- iterate over views, row by row ---- */

/* Loop over the outer dimensions of several views; each iteration processes one row. A row consists of the last
 * dimensions, as many as are dense in all views. */
struct rows {
    int ndim;    /* number of outer dimensions */
    int64_t row; /* elements per row */
    int64_t nrow;
};

static bool
joins(const struct view *v, int d, int64_t row)
{
    return v->dim[d] == 1 || v->stride[d] == row;
}

static struct rows
rows_of(const struct view *dst, int n, box_operand_fn *at, const void *of)
{
    struct rows r = {.ndim = dst->ndim, .row = 1, .nrow = 1};
    for (bool all = true; r.ndim > 0; r.ndim--) {
        int d = r.ndim - 1;
        all = joins(dst, d, r.row);
        for (int i = 0; i < n && all; i++) {
            struct box_operand x;
            at(of, i, &x);
            all = joins(x.view, d, r.row);
        }
        if (!all) break;
        r.row *= dst->dim[d];
    }
    for (int d = 0; d < r.ndim; d++) r.nrow *= dst->dim[d];
    return r;
}

static char *
row_at(const struct view *v, const void *data, const struct rows *r, int64_t row)
{
    int64_t at = 0;
    for (int d = r->ndim - 1; d >= 0; d--) {
        at += row % v->dim[d] * v->stride[d];
        row /= v->dim[d];
    }
    return (char *)(uintptr_t)data + at * (int64_t)dtype_bytes(v->dtype);
}

/* ---- computing steps ---- */

/* State of a reduction, in the dtype of the operands; f32 if some operands are halves (bf16 or f16) and others
 * f32. */
struct summing {
    combine_fn *fn;
    enum dtype dtype;
    struct rows rows;
    const struct view *dst;
    int n;
    box_operand_fn *at;
    const void *of;
};

/* Returns the elements of source k in the dtype of the sum. If some sources are halves (bf16 or f16) and others f32,
 * converts halves into `room`. */
static const void *
source_at(const struct summing *s, int k, int64_t row, int64_t i, int64_t n, float *room)
{
    struct box_operand x;
    s->at(s->of, k, &x);
    const struct view *v = x.view;
    const char *from = row_at(v, x.data, &s->rows, row) + i * (int64_t)dtype_bytes(v->dtype);
    if (v->dtype == s->dtype) return from;
    half_widen(v->dtype, room, from, n);
    return room;
}

static void
sum_block(const struct summing *s, int64_t row, int64_t i, int64_t n)
{
    float block[BLOCK], room[2][BLOCK];
    bool rounds = s->dst->dtype != s->dtype;
    char *to = row_at(s->dst, s->dst->data, &s->rows, row) + i * (int64_t)dtype_bytes(s->dst->dtype);
    void *sum = rounds ? (char *)block : to;
    s->fn(sum, source_at(s, 0, row, i, n, room[0]), source_at(s, 1, row, i, n, room[1]), n);
    for (int k = 2; k < s->n; k++) s->fn(sum, sum, source_at(s, k, row, i, n, room[0]), n);
    if (rounds) half_round(s->dst->dtype, to, block, n);
}

/* Returns the dtype of a sum: f32 if one operand is f32, else the operands' dtype. An f32 operand beside halves is a
 * partial sum, or the sum of earlier micro-batches. */
static enum dtype
dtype_of_sum(int n, box_operand_fn *at, const void *of)
{
    struct box_operand x = {NULL, NULL};
    for (int k = 0; k < n; k++) {
        at(of, k, &x);
        if (x.view->dtype == DT_F32) return DT_F32;
    }
    return x.view->dtype;
}

void
box_reduce_each(enum reduce r, const struct view *dst, int n, box_operand_fn *at, const void *of)
{
    assert(n > 0);
    if (view_numel(dst) == 0) return;
    if (n == 1) {
        struct box_operand one;
        at(of, 0, &one);
        struct view src = *one.view;
        src.data = one.data;
        view_copy(dst, &src);
        return;
    }
    enum dtype d = dtype_of_sum(n, at, of);
    struct summing s = {combine[d][r], d, rows_of(dst, n, at, of), dst, n, at, of};
    assert(s.fn && (dst->dtype == d || (d == DT_F32 && dtype_is_half(dst->dtype))));
    int64_t since = 0, bytes = n * (int64_t)dtype_bytes(d);
    for (int64_t row = 0; row < s.rows.nrow; row++)
        for (int64_t i = 0; i < s.rows.row && !stop_after(&since, bytes * BLOCK); i += BLOCK)
            sum_block(&s, row, i, MIN(s.rows.row - i, BLOCK));
}

static void
of_views(const void *of, int k, struct box_operand *out)
{
    const struct view *v = (const struct view *)of + k;
    *out = (struct box_operand){v, v->data};
}

void
box_reduce(enum reduce r, const struct view *dst, int n, const struct view *src)
{
    box_reduce_each(r, dst, n, of_views, src);
}

/* Returns true if dst has contiguous rows along its last dimension, and src does not. */
static bool
is_crossed(const struct view *dst, const struct view *src)
{
    int d = dst->ndim - 1;
    while (d > 0 && dst->dim[d] == 1) d--;
    return d > 0 && dst->dim[d] > 1 && dst->stride[d] == 1 && src->stride[d] != 1;
}

/* Combines dst with a source in another storage order, such as the gradient of a transposed weight. The source is
 * copied slab by slab to the order of dst, because a copy transposes by cache lines and a reduction reads single
 * elements. 768 x 3072 floats took 30 ms and take 4 ms. */
static void
combine_crossed(enum reduce r, const struct view *dst, const struct view *src)
{
    enum { SLAB = 1 << 16 }; /* elements */
    int d = 0;
    while (dst->dim[d] == 1) d++;
    int64_t row = view_numel(dst) / dst->dim[d], most = MAX(1, SLAB / row);
    struct view to = *dst, from = *src;
    struct type t = {.dtype = src->dtype, .ndim = dst->ndim};
    void *slab = must_alloc((size_t)(most * row) * dtype_bytes(src->dtype));
    memcpy(t.dim, dst->dim, sizeof t.dim);
    for (int64_t i = 0; i < dst->dim[d] && !stop_now(); i += most) {
        to.dim[d] = from.dim[d] = t.dim[d] = MIN(most, dst->dim[d] - i);
        to.data = (char *)dst->data + i * dst->stride[d] * (int64_t)dtype_bytes(dst->dtype);
        from.data = (char *)src->data + i * src->stride[d] * (int64_t)dtype_bytes(src->dtype);
        struct view ordered = view_dense(&t, slab);
        view_copy(&ordered, &from);
        box_reduce(r, &to, 2, (struct view[]){to, ordered});
    }
    free(slab);
}

void
box_combine(enum reduce r, bool first, const struct view *dst, const struct view *src)
{
    struct view pair[2] = {*dst, *src};
    if (first)
        view_copy(dst, src);
    else if (view_numel(dst) && is_crossed(dst, src))
        combine_crossed(r, dst, src);
    else
        box_reduce(r, dst, 2, pair);
}

/* Writes the identity of a reduction. */
static void
identity(enum reduce r, enum dtype t, void *out)
{
    static const int64_t least[NDTYPE] = {[DT_I64] = INT64_MIN, [DT_I32] = INT32_MIN};
    static const int64_t most[NDTYPE] = {
        [DT_I64] = INT64_MAX, [DT_I32] = INT32_MAX, [DT_U8] = UINT8_MAX, [DT_BOOL] = 1};
    if (r == RED_SUM)
        elem_set_i(t, out, 0, 0);
    else if (dtype_is_float(t))
        elem_set_f(t, out, 0, r == RED_MAX ? -INFINITY : INFINITY);
    else
        elem_set_i(t, out, 0, r == RED_MAX ? least[t] : most[t]);
}

void
box_fill(enum reduce r, const struct view *dst)
{
    int64_t value = 0;
    struct view v = *dst;
    v.data = &value;
    memset(v.stride, 0, sizeof v.stride);
    identity(r, dst->dtype, &value);
    view_copy(dst, &v);
}
