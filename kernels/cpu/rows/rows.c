/* rows.c - loops along one axis of a tensor, over blocks of floats. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/rows/rows.h"

#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/base/lanes.h"
#include "runtime/base/simd.h"

#include <math.h>
#include <string.h>

/* ---- blocks ---- */

INLINE float
greater_f32(float a, float b)
{
    return a > b ? a : b;
}

INLINE float
fold_max(float *lane)
{
    for (int l = 0; l < 8; l++) lane[l] = greater_f32(lane[l], lane[l + 8]);
    for (int l = 0; l < 4; l++) lane[l] = greater_f32(lane[l], lane[l + 4]);
    return greater_f32(greater_f32(lane[0], lane[2]), greater_f32(lane[1], lane[3]));
}

VECTOR float
vec_max(int64_t n, const float *x)
{
    float lane[WIDE], max = -INFINITY;
    for (int l = 0; l < WIDE; l++) lane[l] = -INFINITY;
    int64_t i = 0;
    for (; i + WIDE <= n; i += WIDE)
        for (int l = 0; l < WIDE; l++) lane[l] = greater_f32(x[i + l], lane[l]);
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] = greater_f32(x[i + l], lane[l]);
    for (; i < n; i++) max = greater_f32(x[i], max);
    for (int l = 0; l < 2 * LANES; l++) lane[l] = greater_f32(lane[l], lane[l + 2 * LANES]);
    for (int l = 0; l < LANES; l++) lane[l] = greater_f32(lane[l], lane[l + LANES]);
    return greater_f32(max, fold_max(lane));
}
EXPORTED(vec_max)

#define LANES_FILE "kernels/cpu/rows/rows_level.inc"
#include "kernels/cpu/base/lanes_levels.inc"

float
vec_sum(int64_t n, const float *x)
{
    return OF_LEVEL(sum)(n, x);
}

float
vec_dot(int64_t n, const float *x, const float *y)
{
    return OF_LEVEL(dot)(n, x, y);
}

void
vec_softmax_grads(int64_t n, int64_t count, const float *x, const float *y, float *z)
{
    OF_LEVEL(softmax_grads)(n, count, x, y, z);
}

/* Returns e^x for x <= 0; 0 if x < -87; NaN if x is NaN. It is simpler than vec_exp(), which supports all floats. */
INLINE float
exp_negative(float x)
{
    /* Adding 0x1.8p23 rounds x / ln 2 to an integer, which then is in the low bits of n. */
    float z = x < -87.0f ? -87.0f : x, n = fmaf(z, 1.44269504f, 0x1.8p23f);
    uint32_t k = bits_of(n) << 23;
    n -= 0x1.8p23f;
    float r = fmaf(n, 2.12194440e-4f, fmaf(n, -0.693359375f, z)); /* subtracts n ln 2, with ln 2 in two parts */
    float q = 0.00139269181f; /* polynomial for (e^r - 1 - r) / r^2 on [-0.35, 0.35] */
    q = fmaf(q, r, 0.00836376702f);
    q = fmaf(q, r, 0.0416665502f);
    q = fmaf(q, r, 0.166665734f);
    q = fmaf(q, r, 0.5f);
    float e = 1.0f + fmaf(r * r, q, r);
    return x < -87.0f ? 0 : x != x ? x : float_of(bits_of(e) + k);
}

VECTOR void
vec_exp_below(int64_t n, const float *x, float shift, float *y)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) y[i] = exp_negative(x[i] - shift);
}
EXPORTED(vec_exp_below)

VECTOR void
vec_exp_ahead(int64_t n, const float *x, float shift, float *y)
{
    int64_t i = 0;
    for (; i + WIDE <= n; i += WIDE) {
        for (int64_t l = i + ROW_BLOCK; l < i + ROW_BLOCK + WIDE; l += LANES) __builtin_prefetch(x + l);
        INDEPENDENT
        for (int64_t l = i; l < i + WIDE; l++) y[l] = exp_negative(x[l] - shift);
    }
    for (; i < n; i++) y[i] = exp_negative(x[i] - shift);
}
EXPORTED(vec_exp_ahead)

/* Computes exponentials in one loop and their sum in another, because gcc would vectorise only the first statement
 * of a combined loop. */
float
vec_exp_sum(int64_t n, const float *x, float shift, float *y)
{
    vec_exp_below(n, x, shift, y);
    return vec_sum(n, y);
}

VECTOR void
vec_exps(int64_t n, const float *x, float first, float then, float scale, float *y)
{
    int64_t i = 0;
    for (; i + WIDE <= n; i += WIDE) {
        for (int64_t l = i + ROW_BLOCK; l < i + ROW_BLOCK + WIDE; l += LANES)
            __builtin_prefetch(x + l), __builtin_prefetch(y + l, 1);
        INDEPENDENT
        for (int64_t l = i; l < i + WIDE; l++) y[l] = scale * exp_negative((x[l] - first) - then);
    }
    for (; i < n; i++) y[i] = scale * exp_negative((x[i] - first) - then);
}
EXPORTED(vec_exps)

VECTOR void
vec_affine(int64_t n, float scale, const float *x, float shift, float *y)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) y[i] = fmaf(scale, x[i], shift);
}
EXPORTED(vec_affine)

VECTOR void
vec_add(int64_t n, const float *x, float *y)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
}
EXPORTED(vec_add)

/* ---- columns ---- */

/* Process a strip of `lanes` columns at a time. `lanes` is constant in the callers, so that loops over lanes are
 * unrolled. */
INLINE void
strip_max(int lanes, int64_t n, int64_t width, float scale, const float *x, float *max)
{
    float lane[WIDE];
    for (int l = 0; l < lanes; l++) lane[l] = max[l];
    for (int64_t i = 0; i < n; i++)
        for (int l = 0; l < lanes; l++) lane[l] = greater_f32(scale * x[i * width + l], lane[l]);
    for (int l = 0; l < lanes; l++) max[l] = lane[l];
}

VECTOR void
cols_max(int64_t n, int64_t width, float scale, const float *x, float *max)
{
    int64_t c = 0;
    for (; c + WIDE <= width; c += WIDE) strip_max(WIDE, n, width, scale, x + c, max + c);
    for (; c + 2 * COLS <= width; c += 2 * COLS) strip_max(2 * COLS, n, width, scale, x + c, max + c);
    for (; c < width; c += COLS) strip_max(COLS, n, width, scale, x + c, max + c);
}
EXPORTED(cols_max)

INLINE void
strip_sum(int lanes, int64_t n, int64_t width, const float *x, float *sum)
{
    float lane[WIDE] = {0};
    for (int64_t i = 0; i < n; i++)
        for (int l = 0; l < lanes; l++) lane[l] += x[i * width + l];
    for (int l = 0; l < lanes; l++) sum[l] = lane[l];
}

VECTOR void
cols_exp(int64_t n, int64_t width, float scale, float *x, const float *shift, float *sum)
{
    int64_t c = 0;
    for (int64_t i = 0; i < n * width; i += width) INDEPENDENT
    for (int64_t k = 0; k < width; k++) x[i + k] = exp_negative(scale * x[i + k] - shift[k]);
    for (; c + WIDE <= width; c += WIDE) strip_sum(WIDE, n, width, x + c, sum + c);
    for (; c + 2 * COLS <= width; c += 2 * COLS) strip_sum(2 * COLS, n, width, x + c, sum + c);
    for (; c < width; c += COLS) strip_sum(COLS, n, width, x + c, sum + c);
}
EXPORTED(cols_exp)

VECTOR void
cols_times(int64_t n, int64_t width, float *x, const float *factor)
{
    for (int64_t i = 0; i < n * width; i += width) INDEPENDENT
    for (int64_t c = 0; c < width; c++) x[i + c] *= factor[c];
}
EXPORTED(cols_times)

VECTOR void
cols_softmax_grad(int64_t n, int64_t width, float scale, const float *x, const float *shift, float *y)
{
    for (int64_t i = 0; i < n * width; i += width) INDEPENDENT
    for (int64_t c = 0; c < width; c++) y[i + c] = scale * x[i + c] * (y[i + c] - shift[c]);
}
EXPORTED(cols_softmax_grad)

/* ---- rows ---- */

struct row
row_of(const struct view *v, int axis, int64_t k)
{
    int64_t inner = 1, n = axis < v->ndim ? v->dim[axis] : 1; /* a scalar is a row of one element */
    for (int d = axis + 1; d < v->ndim; d++) inner *= v->dim[d];
    int64_t at = inner == 1 ? k * n : k / inner * n * inner + k % inner;
    return (struct row){(char *)v->data + at * (int64_t)dtype_bytes(v->dtype), v->dtype, inner, n};
}

int64_t
row_count(const struct view *v, int axis)
{
    int64_t count = 1;
    for (int d = 0; d < v->ndim; d++) count *= d == axis ? 1 : v->dim[d];
    return count;
}

static char *
rows_row_at(const struct row *r, int64_t i)
{
    return r->data + i * r->stride * (int64_t)dtype_bytes(r->dtype);
}

static bool
is_plain_row(const struct row *r)
{
    return r->dtype == DT_F32 && r->stride == 1;
}

const float *
row_load(const struct row *r, int64_t from, int64_t n, float *workspace)
{
    if (is_plain_row(r)) return (const float *)r->data + from;
    block_load(COMP_F32, r->dtype, rows_row_at(r, from), r->stride, n, workspace);
    return workspace;
}

float *
row_into(const struct row *r, int64_t from, float *workspace)
{
    return is_plain_row(r) ? (float *)r->data + from : workspace;
}

void
row_store(const struct row *r, int64_t from, int64_t n, const float *x)
{
    char *to = rows_row_at(r, from);
    if (!is_plain_row(r))
        block_store(COMP_F32, r->dtype, x, n, to, r->stride);
    else if (to != (const char *)x)
        memcpy(to, x, (size_t)n * sizeof *x);
}
