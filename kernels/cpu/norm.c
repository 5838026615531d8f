/* norm.c - normalisation of rows.
 *
 * A row is read twice (its mean and variance, then the result) and lies in the
 * cache the second time. Both are sums of distances from the mean of the row's
 * first elements; where that is more than a deviation off they are taken again,
 * from the mean. The gradient's sums are taken with them. The mean is two floats:
 * what the rest is taken off is small, and so is what is rounded then. The
 * gradient of the weight is shared out by columns, so that its sums have one
 * order: of a few rows in f32, of these in f64.
 *
 * One Zen 5 core, f32{256,768}: forward 23 us, the gradient 38, that of the weight
 * 23; rows one by one, each of whose sums waits for the one before, 27, 39, 28. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/norm.h"

#include "kernels/cpu/convert.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/norm_f64.h"
#include "kernels/cpu/rows.h"
#include "runtime/simd.h"
#include "kernels/cpu/team.h"
#include "runtime/stop.h"

#include <math.h>
#include <string.h>

enum { TOGETHER = 32 }; /* rows whose gradients are added up in f32 */
enum { ABREAST = 4 };   /* of these in one loop */

struct stats {
    float mean, rest; /* the mean is their sum */
    float rstd;
};

struct task {
    const struct norm *s;
    const struct view *x, *dy, *weight, *bias, *to;
    struct stats *stats; /* of rows; of columns the sums of some rows, and of all before them */
    float *part;
    double *sum;
};

static struct row
row_at(const struct view *v, int64_t r, int64_t n)
{
    if (v->dtype == DT_NONE) return (struct row){0};
    return (struct row){(char *)v->data + r * n * (int64_t)dtype_bytes(v->dtype), v->dtype, 1, n};
}

/* ---- blocks ---- */

/* x - mean */
INLINE float
distance(float x, struct stats t)
{
    return (x - t.mean) - t.rest;
}

/* Adds the sums of x - mean and of its squares to sum[0] and sum[1]. */
VECTOR static void
deviations(int64_t n, const float *x, float mean, double sum[2])
{
    float to[2] = {0, 0};
    sixteen v[4] = {{0}}, w[4] = {{0}};
    int64_t i = 0;
    for (; i + WIDE <= n; i += WIDE)
        for (int k = 0; k < 4; k++) {
            sixteen d = AT(x + i + k * LANES) - mean;
            v[k] += d;
            w[k] += d * d;
        }
    for (; i + LANES <= n; i += LANES) {
        sixteen d = AT(x + i) - mean;
        v[0] += d;
        w[0] += d * d;
    }
    for (; i < n; i++) {
        float d = x[i] - mean;
        to[0] += d;
        to[1] += d * d;
    }
    FOLD_SUM(v, to[0]);
    FOLD_SUM(w, to[1]);
    sum[0] += to[0];
    sum[1] += to[1];
}

VECTOR static void
scale_shift(int64_t n, const float *x, struct stats t, const float *weight, const float *bias, float *y)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) y[i] = distance(x[i], t) * t.rstd * weight[i] + bias[i];
}

/* Adds the sums of d = x - mean, of its squares, of u = dy weight and of u d to sum[0] to sum[3]. */
VECTOR static void
gradient_sums(int64_t n, const float *x, const float *dy, const float *weight, float mean, double sum[4])
{
    float to[4] = {0};
    sixteen v[4] = {{0}}, w[4] = {{0}}, a[4] = {{0}}, b[4] = {{0}};
    int64_t i = 0;
    for (; i + WIDE <= n; i += WIDE)
        for (int k = 0; k < 4; k++) {
            int64_t at = i + k * LANES;
            sixteen d = AT(x + at) - mean, u = AT(dy + at) * AT(weight + at);
            v[k] += d;
            w[k] += d * d;
            a[k] += u;
            b[k] += u * d;
        }
    for (; i + LANES <= n; i += LANES) {
        sixteen d = AT(x + i) - mean, u = AT(dy + i) * AT(weight + i);
        v[0] += d;
        w[0] += d * d;
        a[0] += u;
        b[0] += u * d;
    }
    for (; i < n; i++) {
        float d = x[i] - mean, u = dy[i] * weight[i];
        to[0] += d;
        to[1] += d * d;
        to[2] += u;
        to[3] += u * d;
    }
    FOLD_SUM(v, to[0]);
    FOLD_SUM(w, to[1]);
    FOLD_SUM(a, to[2]);
    FOLD_SUM(b, to[3]);
    for (int k = 0; k < 4; k++) sum[k] += to[k];
}

VECTOR static void
gradient(int64_t n, const float *x, const float *dy, const float *weight, struct stats t, float mean_u, float mean_ux,
         float *dx)
{
    float scale = t.rstd * mean_ux;
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) dx[i] = t.rstd * fmaf(distance(x[i], t), -scale, dy[i] * weight[i] - mean_u);
}

INLINE void
add_rows(int rows, int64_t n, const float *const *x, const float *const *dy, const struct stats *stats, float *sum)
{
    struct stats t[ABREAST]; /* which sum does not change */
    for (int k = 0; k < rows; k++) t[k] = stats[k];
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        float of = sum[i];
        for (int k = 0; k < rows; k++) of += dy[k][i] * (distance(x[k][i], t[k]) * t[k].rstd);
        sum[i] = of;
    }
}

/* sum += dy xhat of up to ABREAST rows, one after the other. */
VECTOR static void
add_gradients(int rows, int64_t n, const float *const *x, const float *const *dy, const struct stats *t, float *sum)
{
    if (rows == ABREAST)
        add_rows(ABREAST, n, x, dy, t, sum);
    else
        for (int k = 0; k < rows; k++) add_rows(1, n, x + k, dy + k, t + k, sum);
}

/* Moves what a few rows came to: sum += part, part = 0. */
VECTOR static void
carry(int64_t n, float *part, double *sum)
{
    for (int64_t i = 0; i < n; i++) sum[i] += part[i];
    memset(part, 0, (size_t)n * sizeof *part);
}

/* ---- rows ---- */

/* Near the mean, if the row begins as it goes on. */
static float
near_mean(const struct row *x, const struct norm *s)
{
    float workspace[WIDE];
    int64_t n = MIN(x->n, WIDE);
    return s->center ? vec_sum(n, row_load(x, 0, n, workspace)) / (float)n : 0;
}

/* sum: of the distances from `mean`, and of their squares. */
static struct stats
stats_from(float mean, const double sum[2], const struct norm *s)
{
    double size = (double)s->n, rest = s->center ? sum[0] / size : 0, variance = sum[1] / size - rest * rest;
    if (variance < 0) variance = 0;
    return (struct stats){mean, (float)rest, (float)(1 / sqrt(variance + s->eps))};
}

/* Was the distance from the mean so large that its square takes digits off the variance? */
static bool
is_far(struct stats t)
{
    return fabsf(t.rest) * t.rstd > 1;
}

static void
sums_around(float mean, const struct row *x, double sum[2])
{
    float workspace[ROW_BLOCK];
    sum[0] = sum[1] = 0;
    for (int64_t i = 0; i < x->n && stop_passes(i); i += ROW_BLOCK) {
        int64_t n = MIN(x->n - i, ROW_BLOCK);
        deviations(n, row_load(x, i, n, workspace), mean, sum);
    }
}

/* Of rows r to r + n, n at most ABREAST: what each waits for in one step overlaps with the step's other rows. */
static void
stats_abreast(const struct task *t, int64_t r, int n, struct stats *to)
{
    struct row x[ABREAST];
    float mean[ABREAST];
    double sum[ABREAST][2];
    for (int k = 0; k < n; k++) x[k] = row_at(t->x, r + k, t->s->n);
    for (int k = 0; k < n; k++) mean[k] = near_mean(&x[k], t->s);
    for (int k = 0; k < n; k++) sums_around(mean[k], &x[k], sum[k]);
    for (int k = 0; k < n; k++) to[k] = stats_from(mean[k], sum[k], t->s);
    for (int k = 0; k < n; k++) {
        if (!is_far(to[k])) continue;
        mean[k] = to[k].mean + to[k].rest;
        sums_around(mean[k], &x[k], sum[k]);
        to[k] = stats_from(mean[k], sum[k], t->s);
    }
}

/* A block of a vector of n elements, `other` repeated where it is absent. */
static const float *
load_or(const struct row *r, int64_t from, int64_t n, float other, float *workspace)
{
    if (r->dtype != DT_NONE) return row_load(r, from, n, workspace);
    for (int64_t i = 0; i < n; i++) workspace[i] = other;
    return workspace;
}

static void
forward_row(const struct task *t, int64_t r, struct stats stats)
{
    int64_t size = t->s->n;
    float x_workspace[ROW_BLOCK], w_workspace[ROW_BLOCK], b_workspace[ROW_BLOCK];
    struct row x = row_at(t->x, r, size), y = row_at(t->to, r, size);
    struct row w = row_at(t->weight, 0, size), b = row_at(t->bias, 0, size);
    for (int64_t i = 0; i < size && stop_passes(i); i += ROW_BLOCK) {
        int64_t n = MIN(size - i, ROW_BLOCK);
        float *to = row_into(&y, i, x_workspace);
        scale_shift(n, row_load(&x, i, n, x_workspace), stats, load_or(&w, i, n, 1, w_workspace),
                    load_or(&b, i, n, 0, b_workspace), to);
        row_store(&y, i, n, to);
    }
}

static void
forward_range(void *arg, int64_t lo, int64_t hi)
{
    const struct task *t = arg;
    struct stats stats[ABREAST];
    for (int64_t r = lo; r < hi; r += ABREAST) {
        int rows = (int)MIN(hi - r, ABREAST);
        stats_abreast(t, r, rows, stats);
        for (int k = 0; k < rows; k++) forward_row(t, r + k, stats[k]);
    }
}

/* A row's sums around `mean`, as gradient_sums() takes them. */
static struct stats
backward_sums(const struct task *t, int64_t r, float mean, double sum[4])
{
    int64_t size = t->s->n;
    float x_workspace[ROW_BLOCK], d_workspace[ROW_BLOCK], w_workspace[ROW_BLOCK];
    struct row x = row_at(t->x, r, size), dy = row_at(t->dy, r, size), w = row_at(t->weight, 0, size);
    for (int k = 0; k < 4; k++) sum[k] = 0;
    for (int64_t i = 0; i < size && stop_passes(i); i += ROW_BLOCK) {
        int64_t n = MIN(size - i, ROW_BLOCK);
        gradient_sums(n, row_load(&x, i, n, x_workspace), row_load(&dy, i, n, d_workspace),
                      load_or(&w, i, n, 1, w_workspace), mean, sum);
    }
    return stats_from(mean, sum, t->s);
}

static void
backward_row(const struct task *t, int64_t r)
{
    int64_t size = t->s->n;
    float x_workspace[ROW_BLOCK], d_workspace[ROW_BLOCK], w_workspace[ROW_BLOCK];
    struct row x = row_at(t->x, r, size), dy = row_at(t->dy, r, size), dx = row_at(t->to, r, size);
    struct row w = row_at(t->weight, 0, size);
    double sum[4];
    struct stats stats = backward_sums(t, r, near_mean(&x, t->s), sum);
    if (is_far(stats)) stats = backward_sums(t, r, stats.mean + stats.rest, sum);
    float mean_u = t->s->center ? (float)(sum[2] / (double)size) : 0;
    double ud =
        isfinite(sum[2]) ? sum[3] - (double)stats.rest * sum[2] : sum[3]; /* 0 times infinity is no correction */
    float mean_ux = (float)(ud * (double)stats.rstd / (double)size);
    for (int64_t i = 0; i < size && stop_passes(i); i += ROW_BLOCK) {
        int64_t n = MIN(size - i, ROW_BLOCK);
        float *to = row_into(&dx, i, x_workspace);
        gradient(n, row_load(&x, i, n, x_workspace), row_load(&dy, i, n, d_workspace),
                 load_or(&w, i, n, 1, w_workspace), stats, mean_u, mean_ux, to);
        row_store(&dx, i, n, to);
    }
}

static void
backward_range(void *arg, int64_t lo, int64_t hi)
{
    for (int64_t r = lo; r < hi; r++) backward_row(arg, r);
}

static void
stats_range(void *arg, int64_t lo, int64_t hi)
{
    const struct task *t = arg;
    for (int64_t r = lo; r < hi; r += ABREAST) stats_abreast(t, r, (int)MIN(hi - r, ABREAST), t->stats + r);
}

/* Adds what rows r.. of columns lo..hi come to, to the sums of some rows. */
static void
add_abreast(const struct task *t, int64_t r, int rows, int64_t lo, int64_t hi)
{
    float x_workspace[ABREAST][ROW_BLOCK], d_workspace[ABREAST][ROW_BLOCK];
    const float *x[ABREAST], *dy[ABREAST];
    for (int64_t i = lo; i < hi; i += ROW_BLOCK) {
        int64_t n = MIN(hi - i, ROW_BLOCK);
        for (int k = 0; k < rows; k++) {
            struct row from = row_at(t->x, r + k, t->s->n), d_from = row_at(t->dy, r + k, t->s->n);
            x[k] = row_load(&from, i, n, x_workspace[k]);
            dy[k] = row_load(&d_from, i, n, d_workspace[k]);
        }
        add_gradients(rows, n, x, dy, t->stats + r, t->part + i);
    }
}

/* Columns lo..hi. One thread takes rows' statistics when it comes to them, and finds the rows in the cache; of several
 * each goes through all rows, whose statistics are there. */
static void
weight_range(void *arg, int64_t lo, int64_t hi)
{
    const struct task *t = arg;
    int64_t bytes = (int64_t)dtype_bytes(t->to->dtype), since = 0;
    memset(t->part + lo, 0, (size_t)(hi - lo) * sizeof *t->part);
    memset(t->sum + lo, 0, (size_t)(hi - lo) * sizeof *t->sum);
    for (int64_t r = 0; r < t->s->rows && !stop_after(&since, 2 * ABREAST * (hi - lo) * bytes); r += ABREAST) {
        int rows = (int)MIN(t->s->rows - r, ABREAST);
        if (t->s->threads == 1) stats_range(arg, r, r + rows);
        add_abreast(t, r, rows, lo, hi);
        if ((r + rows) % TOGETHER == 0) carry(hi - lo, t->part + lo, t->sum + lo);
    }
    carry(hi - lo, t->part + lo, t->sum + lo);
    block_store(COMP_F64, t->to->dtype, t->sum + lo, hi - lo, (char *)t->to->data + lo * bytes, 1);
}

/* ---- the three ---- */

static const double *
given(const struct view *v)
{
    return v->dtype == DT_NONE ? NULL : v->data;
}

static int64_t
row_grain(const struct norm *s)
{
    return 1 + 16384 / MAX(s->n, 1);
}

void
norm_forward(const struct norm *s, const struct view *x, const struct view *weight, const struct view *bias,
             const struct view *y)
{
    if (x->dtype == DT_F64) {
        norm_f64_forward(s, x->data, given(weight), given(bias), y->data);
        return;
    }
    struct task t = {.s = s, .x = x, .weight = weight, .bias = bias, .to = y};
    team_run(s->threads, s->rows, row_grain(s), forward_range, &t);
}

void
norm_backward(const struct norm *s, const struct view *x, const struct view *dy, const struct view *weight,
              const struct view *dx)
{
    if (x->dtype == DT_F64) {
        norm_f64_backward(s, x->data, dy->data, given(weight), dx->data);
        return;
    }
    struct task t = {.s = s, .x = x, .dy = dy, .weight = weight, .to = dx};
    team_run(s->threads, s->rows, row_grain(s), backward_range, &t);
}

size_t
norm_scratch(const struct norm *s)
{
    size_t f32 = (size_t)s->n * (sizeof(double) + sizeof(float)) + (size_t)s->rows * sizeof(struct stats);
    return MAX(f32, (size_t)s->rows * 2 * sizeof(double));
}

void
norm_weight(const struct norm *s, const struct view *x, const struct view *dy, const struct view *dw, void *scratch)
{
    if (x->dtype == DT_F64) {
        norm_f64_weight(s, x->data, dy->data, dw->data, scratch);
        return;
    }
    struct task t = {.s = s, .x = x, .dy = dy, .to = dw, .sum = scratch};
    t.part = (float *)(t.sum + s->n);
    t.stats = (struct stats *)(t.part + s->n);
    if (s->threads == 1) {
        weight_range(&t, 0, s->n);
        return;
    }
    team_run(s->threads, s->rows, row_grain(s), stats_range, &t);
    team_run(s->threads, s->n, 64 + 16384 / MAX(s->rows, 1), weight_range, &t);
}
