/* norm.c - normalisation of rows.
 *
 * A row is read twice (its mean and variance, then the result) and lies in the
 * cache the second time; the variance is that around the mean. The gradient's
 * sums are taken with it. The mean is two floats: what the rest is taken off is
 * small, and so is what is rounded then. The gradient of the weight is shared out
 * by columns, so that its sums have one order: of a few rows in f32, of these in
 * f64. */
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

struct stats {
    float mean, rest; /* the mean is their sum */
    float rstd;
};

struct task {
    const struct norm *s;
    const struct view *x, *dy, *weight, *bias, *to;
    struct stats *stats;
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

VECTOR static void
add_gradient(int64_t n, const float *x, const float *dy, struct stats t, float *sum)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) sum[i] += dy[i] * (distance(x[i], t) * t.rstd);
}

/* Moves what a few rows came to: sum += part, part = 0. */
VECTOR static void
carry(int64_t n, float *part, double *sum)
{
    for (int64_t i = 0; i < n; i++) sum[i] += part[i];
    memset(part, 0, (size_t)n * sizeof *part);
}

/* ---- rows ---- */

static float
mean_of(const struct row *x, const struct norm *s)
{
    return s->center ? (float)(row_sum(x, 0) / (double)x->n) : 0;
}

/* sum: of the distances from the mean of floats, which are small, and of their squares. */
static struct stats
stats_from(float mean, const double sum[2], const struct norm *s)
{
    double size = (double)s->n, rest = s->center ? sum[0] / size : 0, variance = sum[1] / size - rest * rest;
    if (variance < 0) variance = 0;
    return (struct stats){mean, (float)rest, (float)(1 / sqrt(variance + s->eps))};
}

static struct stats
stats_of(const struct row *x, const struct norm *s)
{
    float workspace[ROW_BLOCK], mean = mean_of(x, s);
    double sum[2] = {0, 0};
    for (int64_t i = 0; i < x->n && stop_passes(i); i += ROW_BLOCK) {
        int64_t n = MIN(x->n - i, ROW_BLOCK);
        deviations(n, row_load(x, i, n, workspace), mean, sum);
    }
    return stats_from(mean, sum, s);
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
forward_range(void *arg, int64_t lo, int64_t hi)
{
    const struct task *t = arg;
    int64_t size = t->s->n;
    float x_workspace[ROW_BLOCK], w_workspace[ROW_BLOCK], b_workspace[ROW_BLOCK];
    struct row w = row_at(t->weight, 0, size), b = row_at(t->bias, 0, size);
    for (int64_t r = lo; r < hi; r++) {
        struct row x = row_at(t->x, r, size), y = row_at(t->to, r, size);
        struct stats stats = stats_of(&x, t->s);
        for (int64_t i = 0; i < size && stop_passes(i); i += ROW_BLOCK) {
            int64_t n = MIN(size - i, ROW_BLOCK);
            float *to = row_into(&y, i, x_workspace);
            scale_shift(n, row_load(&x, i, n, x_workspace), stats, load_or(&w, i, n, 1, w_workspace),
                        load_or(&b, i, n, 0, b_workspace), to);
            row_store(&y, i, n, to);
        }
    }
}

static void
backward_row(const struct task *t, int64_t r)
{
    int64_t size = t->s->n;
    float x_workspace[ROW_BLOCK], d_workspace[ROW_BLOCK], w_workspace[ROW_BLOCK];
    struct row x = row_at(t->x, r, size), dy = row_at(t->dy, r, size), dx = row_at(t->to, r, size);
    struct row w = row_at(t->weight, 0, size);
    float mean = mean_of(&x, t->s);
    double sum[4] = {0};
    for (int64_t i = 0; i < size && stop_passes(i); i += ROW_BLOCK) {
        int64_t n = MIN(size - i, ROW_BLOCK);
        gradient_sums(n, row_load(&x, i, n, x_workspace), row_load(&dy, i, n, d_workspace),
                      load_or(&w, i, n, 1, w_workspace), mean, sum);
    }
    struct stats stats = stats_from(mean, sum, t->s);
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
    for (int64_t r = lo; r < hi; r++) {
        struct row x = row_at(t->x, r, t->s->n);
        t->stats[r] = stats_of(&x, t->s);
    }
}

static void
weight_range(void *arg, int64_t lo, int64_t hi)
{
    const struct task *t = arg;
    double sum[ROW_BLOCK];
    float part[ROW_BLOCK] = {0}, x_workspace[ROW_BLOCK], d_workspace[ROW_BLOCK];
    int64_t bytes = (int64_t)dtype_bytes(t->to->dtype);
    for (int64_t i = lo; i < hi; i += ROW_BLOCK) {
        int64_t n = MIN(hi - i, ROW_BLOCK);
        memset(sum, 0, sizeof sum);
        for (int64_t r = 0, since = 0; r < t->s->rows && !stop_after(&since, 2 * n * bytes); r++) {
            struct row x = row_at(t->x, r, t->s->n), dy = row_at(t->dy, r, t->s->n);
            add_gradient(n, row_load(&x, i, n, x_workspace), row_load(&dy, i, n, d_workspace), t->stats[r], part);
            if (r % TOGETHER == TOGETHER - 1) carry(n, part, sum);
        }
        carry(n, part, sum);
        block_store(COMP_F64, t->to->dtype, sum, n, (char *)t->to->data + i * bytes, 1);
    }
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
    return (size_t)s->rows * MAX(sizeof(struct stats), 2 * sizeof(double));
}

void
norm_weight(const struct norm *s, const struct view *x, const struct view *dy, const struct view *dw, void *scratch)
{
    if (x->dtype == DT_F64) {
        norm_f64_weight(s, x->data, dy->data, dw->data, scratch);
        return;
    }
    struct task t = {.s = s, .x = x, .dy = dy, .to = dw, .stats = scratch};
    team_run(s->threads, s->rows, row_grain(s), stats_range, &t);
    team_run(s->threads, s->n, 64 + 16384 / MAX(s->rows, 1), weight_range, &t);
}
