/* rows.c - loops along one axis. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/rows.h"

#include "kernels/cpu/convert.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/vmath.h"

#include <math.h>

enum { LANES = 16 };

/* ---- blocks ---- */

VECTOR float
vec_max(int64_t n, const float *x)
{
    float lane[LANES], max = -INFINITY;
    for (int l = 0; l < LANES; l++) lane[l] = -INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (; i < n; i++) max = x[i] > max ? x[i] : max;
    for (int l = 0; l < LANES; l++) max = lane[l] > max ? lane[l] : max;
    return max;
}

VECTOR float
vec_sum(int64_t n, const float *x)
{
    float lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += x[i + l];
    for (; i < n; i++) sum += x[i];
    for (int l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}

VECTOR float
vec_dot(int64_t n, const float *x, const float *y)
{
    float lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += x[i + l] * y[i + l];
    for (; i < n; i++) sum += x[i] * y[i];
    for (int l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}

VECTOR void
vec_affine(int64_t n, float scale, const float *x, float shift, float *y)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) y[i] = scale * x[i] + shift;
}

/* ---- rows ---- */

struct row
row_of(const struct view *v, int axis, int64_t k)
{
    int64_t inner = 1, n = v->dim[axis];
    for (int d = axis + 1; d < v->ndim; d++) inner *= v->dim[d];
    int64_t at = k / inner * n * inner + k % inner;
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
row_at(const struct row *r, int64_t i)
{
    return r->data + i * r->stride * (int64_t)dtype_bytes(r->dtype);
}

const float *
row_load(const struct row *r, int64_t from, int64_t n, float *room)
{
    if (r->dtype == DT_F32 && r->stride == 1) return (const float *)r->data + from;
    block_load(COMP_F32, r->dtype, row_at(r, from), r->stride, n, room);
    return room;
}

void
row_store(const struct row *r, int64_t from, int64_t n, const float *x)
{
    block_store(COMP_F32, r->dtype, x, n, row_at(r, from), r->stride);
}

float
row_get(const struct row *r, int64_t i)
{
    return (float)elem_get_f(r->dtype, r->data, i * r->stride);
}

float
row_max(const struct row *r)
{
    float room[ROW_BLOCK], max = -INFINITY;
    for (int64_t i = 0; i < r->n; i += ROW_BLOCK) {
        int64_t n = MIN(r->n - i, ROW_BLOCK);
        float m = vec_max(n, row_load(r, i, n, room));
        max = m > max ? m : max;
    }
    return max;
}

double
row_sum(const struct row *r)
{
    float room[ROW_BLOCK];
    double sum = 0;
    for (int64_t i = 0; i < r->n; i += ROW_BLOCK) {
        int64_t n = MIN(r->n - i, ROW_BLOCK);
        sum += vec_sum(n, row_load(r, i, n, room));
    }
    return sum;
}

double
row_exp_sum(const struct row *r, float shift)
{
    float room[ROW_BLOCK];
    double sum = 0;
    for (int64_t i = 0; i < r->n; i += ROW_BLOCK) {
        int64_t n = MIN(r->n - i, ROW_BLOCK);
        vec_affine(n, 1, row_load(r, i, n, room), -shift, room);
        vec_exp(n, room, room);
        sum += vec_sum(n, room);
    }
    return sum;
}
