/* norm_f64.c - normalisation of rows of doubles; norm.c does the same for floats.
 *
 * Within a block of a row, sums have 32 lanes, which are enough to hide the latency of an addition. The sums of
 * blocks are added one after the other. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/rows/norm_f64.h"

#include "kernels/cpu/base/team.h"
#include "runtime/base/stop.h"
#include "runtime/base/simd.h"

#include <math.h>
#include <string.h>

enum { LANES = 32, BLOCK = 1024 };

struct stats {
    double mean, rest; /* two doubles whose sum is the row's mean */
    double rstd;
};

struct task {
    const struct norm *s;
    const double *x, *dy, *weight, *bias;
    double *to, *bias_to;
    struct stats *stats;
};

/* Returns x - mean. */
INLINE double
distance_f64(double x, struct stats t)
{
    return (x - t.mean) - t.rest;
}

/* ---- rows ---- */

INLINE double
fold(double *lane)
{
    for (int half = LANES / 2; half; half /= 2)
        for (int l = 0; l < half; l++) lane[l] += lane[l + half];
    return lane[0];
}

/* Adds the sum of x - shift to sum[0], and the sum of (x - shift)^2 to sum[1]. */
VECTOR static void
moments(int64_t n, const double *x, double shift, double sum[2])
{
    double a[LANES] = {0}, b[LANES] = {0}, tail = 0, tail_squares = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            double d = x[i + l] - shift;
            a[l] += d;
            b[l] += d * d;
        }
    for (; i < n; i++) {
        tail += x[i] - shift;
        tail_squares += (x[i] - shift) * (x[i] - shift);
    }
    sum[0] += fold(a) + tail;
    sum[1] += fold(b) + tail_squares;
}

static void
row_moments(int64_t n, const double *x, double shift, double sum[2])
{
    sum[0] = sum[1] = 0;
    for (int64_t i = 0; i < n && stop_passes(i); i += BLOCK) moments(MIN(n - i, BLOCK), x + i, shift, sum);
}

static struct stats
stats_of(const struct norm *s, const double *x)
{
    double sum[2] = {0}, mean, rest, n = (double)s->n;
    if (s->center) row_moments(s->n, x, 0, sum);
    mean = sum[0] / n;
    row_moments(s->n, x, mean, sum);
    rest = s->center ? sum[0] / n : 0;
    double variance = sum[1] / n - rest * rest;
    if (variance < 0) variance = 0; /* the comparison is false for NaN, so NaN stays */
    return (struct stats){mean, rest, 1 / sqrt(variance + s->eps)};
}

VECTOR static void
normalise(int64_t n, const double *x, struct stats t, double *y)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) y[i] = distance_f64(x[i], t) * t.rstd;
}

VECTOR static void
multiply_vectors(int64_t n, const double *w, double *y)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) y[i] *= w[i];
}

VECTOR static void
add_vectors(int64_t n, const double *b, double *y)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) y[i] += b[i];
}

/* Adds the sum of u = dy w (w NULL: u = dy) to sum[0], and the sum of u xhat to sum[1]; xhat is the normalised x. */
VECTOR static void
gradient_sums_f64(int64_t n, const double *x, const double *dy, const double *w, struct stats t, double sum[2])
{
    double a[LANES] = {0}, b[LANES] = {0};
    int64_t whole = n / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++) {
            double u = w ? dy[i + l] * w[i + l] : dy[i + l];
            a[l] += u;
            b[l] += u * (distance_f64(x[i + l], t) * t.rstd);
        }
    for (int64_t i = whole; i < n; i++) {
        double u = w ? dy[i] * w[i] : dy[i];
        a[i - whole] += u;
        b[i - whole] += u * (distance_f64(x[i], t) * t.rstd);
    }
    sum[0] += fold(a);
    sum[1] += fold(b);
}

VECTOR static void
gradient(int64_t n, const double *x, const double *dy, const double *w, struct stats t, double mean_u, double mean_ux,
         double *dx)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        double u = w ? dy[i] * w[i] : dy[i];
        dx[i] = t.rstd * (u - mean_u - distance_f64(x[i], t) * t.rstd * mean_ux);
    }
}

VECTOR static void
add_row_gradients(int64_t n, const double *x, const double *dy, struct stats t, double *dw, double *db)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        dw[i] += dy[i] * (distance_f64(x[i], t) * t.rstd);
        db[i] += dy[i];
    }
}

/* ---- dividing rows among threads ---- */

static void
forward_row_f64(const struct task *t, const double *x, double *y)
{
    struct stats stats = stats_of(t->s, x);
    for (int64_t i = 0; i < t->s->n && stop_passes(i); i += BLOCK) {
        int64_t n = MIN(t->s->n - i, BLOCK);
        normalise(n, x + i, stats, y + i);
        if (t->weight) multiply_vectors(n, t->weight + i, y + i);
        if (t->bias) add_vectors(n, t->bias + i, y + i);
    }
}

static void
forward_rows_f64(void *arg, int64_t lo, int64_t hi)
{
    const struct task *t = arg;
    for (int64_t r = lo; r < hi; r++) forward_row_f64(t, t->x + r * t->s->n, t->to + r * t->s->n);
}

static void
backward_row(const struct task *t, const double *x, const double *dy, double *dx)
{
    struct stats stats = stats_of(t->s, x);
    double sum[2] = {0}, n = (double)t->s->n;
    const double *w = t->weight;
    for (int64_t i = 0; i < t->s->n && stop_passes(i); i += BLOCK)
        gradient_sums_f64(MIN(t->s->n - i, BLOCK), x + i, dy + i, w ? w + i : NULL, stats, sum);
    double mean_u = t->s->center ? sum[0] / n : 0;
    for (int64_t i = 0; i < t->s->n && stop_passes(i); i += BLOCK)
        gradient(MIN(t->s->n - i, BLOCK), x + i, dy + i, w ? w + i : NULL, stats, mean_u, sum[1] / n, dx + i);
}

static void
backward_range(void *arg, int64_t lo, int64_t hi)
{
    const struct task *t = arg;
    int64_t n = t->s->n;
    for (int64_t r = lo; r < hi; r++) backward_row(t, t->x + r * n, t->dy + r * n, t->to + r * n);
}

static void
stats_range(void *arg, int64_t lo, int64_t hi)
{
    const struct task *t = arg;
    for (int64_t r = lo; r < hi; r++) t->stats[r] = stats_of(t->s, t->x + r * t->s->n);
}

static void
weight_range(void *arg, int64_t lo, int64_t hi)
{
    const struct task *t = arg;
    memset(t->to + lo, 0, (size_t)(hi - lo) * sizeof *t->to);
    memset(t->bias_to + lo, 0, (size_t)(hi - lo) * sizeof *t->bias_to);
    for (int64_t r = 0, since = 0; r < t->s->rows && !stop_after(&since, (hi - lo) * 16); r++) {
        int64_t at = r * t->s->n + lo;
        add_row_gradients(hi - lo, t->x + at, t->dy + at, t->stats[r], t->to + lo, t->bias_to + lo);
    }
}

/* ---- computing y, the gradient of x, and the gradients of the weights ---- */

static int64_t
grain_f64(const struct norm *s)
{
    return 1 + 8192 / MAX(s->n, 1);
}

void
norm_f64_forward(const struct norm *s, const double *x, const double *weight, const double *bias, double *y)
{
    struct task t = {.s = s, .x = x, .weight = weight, .bias = bias, .to = y};
    team_run(s->threads, s->rows, grain_f64(s), forward_rows_f64, &t);
}

void
norm_f64_backward(const struct norm *s, const double *x, const double *dy, const double *weight, double *dx)
{
    struct task t = {.s = s, .x = x, .dy = dy, .weight = weight, .to = dx};
    team_run(s->threads, s->rows, grain_f64(s), backward_range, &t);
}

size_t
norm_f64_scratch(const struct norm *s)
{
    return (size_t)s->rows * sizeof(struct stats);
}

void
norm_f64_weights(const struct norm *s, const double *x, const double *dy, double *dw, double *db, void *scratch)
{
    struct task t = {.s = s, .x = x, .dy = dy, .to = dw, .bias_to = db, .stats = scratch};
    team_run(s->threads, s->rows, grain_f64(s), stats_range, &t);
    team_run(s->threads, s->n, 64 + 8192 / MAX(s->rows, 1), weight_range, &t);
}
