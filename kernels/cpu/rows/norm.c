/* norm.c - normalisation of rows of floats.
 *
 * A row is read twice: once for mean and variance, and once, from the cache, for the result. Mean and variance are
 * computed from sums of distances from an assumed mean, which is the mean of the row's first elements. If the
 * row's mean is more than one standard deviation from the assumed mean, the sums are computed again with distances
 * from the row's mean. The sums that the gradient needs are computed in the same pass. The mean is stored as two
 * floats: subtracting the large part first and the small part second keeps rounding errors small.
 *
 * The gradients of weight and bias are accumulated while their rows are cached. Four rows are added up in f32, and
 * these sums are added in f64. Rows are divided into lots, which depend on sizes alone; threads share the lots.
 *
 * Times for f32{256,768} on one Zen 5 core, us. Row by row, each addition would wait for the one before:
 *
 *                             this file   row by row
 *    forward                         23           27
 *    gradient                        38           39
 *    gradient of the weight          23           28 */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/rows/norm.h"

#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/rows/fold.h"
#include "kernels/cpu/base/lanes.h"
#include "kernels/cpu/rows/norm_f64.h"
#include "kernels/cpu/rows/rows.h"
#include "runtime/tensor/half.h"
#include "runtime/base/simd.h"
#include "kernels/cpu/base/team.h"
#include "runtime/base/stop.h"

#include <math.h>
#include <string.h>

enum { ABREAST = 4 }; /* number of rows that a loop processes together */

struct stats {
    float mean, rest; /* two floats whose sum is the row's mean */
    float rstd;
};

struct task {
    const struct norm *s;
    const struct view *x, *dy, *weight, *bias, *to;
    double *sum; /* for each group of rows (lot): n sums for dw, then n sums for db */
};

static struct row
norm_row_at(const struct view *v, int64_t r, int64_t n)
{
    if (v->dtype == DT_NONE) return (struct row){0};
    return (struct row){(char *)v->data + r * n * (int64_t)dtype_bytes(v->dtype), v->dtype, 1, n};
}

/* Prefetch distances, elements. read: how far ahead operands are prefetched, so that the next rows arrive while
 * the current ones are computed; write: how far ahead results are. Both are 0 if the tensors fit into the caches.
 * On one Xeon core (Sapphire Rapids), f32{16384, 768} takes 4.8 ms with both prefetches, 9 ms with either one, and
 * 10.1 ms without. */
struct ahead {
    int64_t read, write;
};
enum { AHEAD = 512, FAR_BYTES = 32 << 20, FAR_READ = 16384 };

static struct ahead
norm_ahead(const struct norm *s)
{
    if (s->rows * s->n * (int64_t)sizeof(float) < FAR_BYTES) return (struct ahead){0, 0};
    return (struct ahead){ABREAST * s->n <= FAR_READ ? ABREAST * s->n : 0, AHEAD};
}

/* ---- blocks ---- */

/* Returns x - mean. */
INLINE float
distance_f32(float x, struct stats t)
{
    return (x - t.mean) - t.rest;
}

VECTOR static void
scale_shift(int64_t n, const float *x, struct stats t, const float *weight, const float *bias, float *y,
            struct ahead ahead)
{
    int64_t i = 0;
    for (; i + WIDE <= n; i += WIDE) {
        for (int64_t l = i; l < i + WIDE; l += LANES)
            __builtin_prefetch(x + l + ahead.read), __builtin_prefetch(y + l + ahead.write, 1);
        INDEPENDENT
        for (int64_t l = i; l < i + WIDE; l++) y[l] = distance_f32(x[l], t) * t.rstd * weight[l] + bias[l];
    }
    for (; i < n; i++) y[i] = distance_f32(x[i], t) * t.rstd * weight[i] + bias[i];
}

#define LANES_FILE "kernels/cpu/rows/norm_level.inc"
#include "kernels/cpu/base/lanes_levels.inc"

/* Coefficients of a row's gradient dx (norm_backward(), norm.h). */
struct slope {
    struct stats stats;
    float mean_u, scale; /* mean_u: mean of u; scale: mean of (u xhat) times rstd (norm.h) */
};

/* Computes dx of up to ABREAST rows, and adds the rows' contributions to dw and db. First adds up the
 * contributions of these rows in f32. */
INLINE void
gradient_rows(int rows, int64_t n, const float *const *x, const float *const *dy, const float *weight,
              const struct slope *slope, float *const *dx, double *dw, double *db)
{
    struct slope t[ABREAST]; /* local copies, because the compiler knows that stores of results do not change them */
    for (int k = 0; k < rows; k++) t[k] = slope[k];
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        float of_weight = 0, of_bias = 0;
        for (int k = 0; k < rows; k++) {
            float d = distance_f32(x[k][i], t[k].stats), rstd = t[k].stats.rstd, g = dy[k][i];
            dx[k][i] = rstd * fmaf(d, -t[k].scale, g * weight[i] - t[k].mean_u);
            of_weight += g * (d * rstd);
            of_bias += g;
        }
        dw[i] += of_weight;
        db[i] += of_bias;
    }
}

VECTOR static void
gradients(int rows, int64_t n, const float *const *x, const float *const *dy, const float *weight,
          const struct slope *t, float *const *dx, double *dw, double *db)
{
    if (rows == ABREAST)
        gradient_rows(ABREAST, n, x, dy, weight, t, dx, dw, db);
    else
        for (int k = 0; k < rows; k++) gradient_rows(1, n, x + k, dy + k, weight, t + k, dx + k, dw, db);
}

VECTOR static void
norm_accumulate(int64_t n, const double *x, double *sum)
{
    for (int64_t i = 0; i < n; i++) sum[i] += x[i];
}

/* ---- rows ---- */

/* Returns the mean of the row's first elements. It is near the row's mean if these elements are typical. */
static float
near_mean(const struct row *x, const struct norm *s)
{
    float workspace[WIDE];
    int64_t n = MIN(x->n, WIDE);
    return s->center ? vec_sum(n, row_load(x, 0, n, workspace)) / (float)n : 0;
}

/* Returns the statistics of a row. mean: the assumed mean; sum[0]: sum of the distances from it; sum[1]: sum of
 * their squares. */
static struct stats
stats_from(float mean, const double sum[2], const struct norm *s)
{
    double size = (double)s->n, rest = s->center ? sum[0] / size : 0, variance = sum[1] / size - rest * rest;
    if (variance < 0) variance = 0;
    return (struct stats){mean, (float)rest, (float)(1 / sqrt(variance + s->eps))};
}

/* Returns true if the row's mean is so far from the assumed mean that the sum of squares loses digits of the
 * variance. */
static bool
is_far_from_zero(struct stats t)
{
    return fabsf(t.rest) * t.rstd > 1;
}

/* Returns true if the sum of squares overflows f32, or if variance plus eps is so small that f32 may flush squares to
 * 0. */
static bool
out_of_range(const struct norm *s, double squares)
{
    return !isfinite(squares) || squares / (double)s->n + s->eps < 0x1p-100;
}

static void
sums_around(float mean, const struct row *x, double sum[2])
{
    float workspace[ROW_BLOCK];
    sum[0] = sum[1] = 0;
    for (int64_t i = 0; i < x->n && stop_passes(i); i += ROW_BLOCK) {
        int64_t n = MIN(x->n - i, ROW_BLOCK);
        OF_LEVEL(deviations)(n, row_load(x, i, n, workspace), mean, sum);
    }
}

/* Returns n elements of a vector as a block. If the vector is absent, returns a block filled with `other`. */
static const float *
load_or(const struct row *r, int64_t from, int64_t n, float other, float *workspace)
{
    if (r->dtype != DT_NONE) return row_load(r, from, n, workspace);
    for (int64_t i = 0; i < n; i++) workspace[i] = other;
    return workspace;
}

/* Computes the sums of deviations() and gradient_sums() in f64, around the mean rounded to a float. If dy is
 * absent, sums with dy are 0. Needed if squares leave the range of f32, that is, for distances above 2e19 or below
 * 1e-19. */
static struct stats
stats_wide(const struct norm *s, const struct row *x, const struct row *dy, const struct row *weight, double sum[4])
{
    float x_workspace[ROW_BLOCK], d_workspace[ROW_BLOCK], w_workspace[ROW_BLOCK];
    double all = 0;
    for (int64_t i = 0; i < x->n && s->center && stop_passes(i); i += ROW_BLOCK)
        all += fold_sum(row_load(x, i, MIN(x->n - i, ROW_BLOCK), x_workspace), MIN(x->n - i, ROW_BLOCK));
    double mean = all / (double)s->n;
    for (int k = 0; k < 4; k++) sum[k] = 0;
    for (int64_t i = 0; i < x->n && stop_passes(i); i += ROW_BLOCK) {
        int64_t n = MIN(x->n - i, ROW_BLOCK);
        const float *from = row_load(x, i, n, x_workspace), *slope = load_or(dy, i, n, 0, d_workspace);
        const float *w = load_or(weight, i, n, 1, w_workspace);
        for (int64_t k = 0; k < n; k++) {
            double d = from[k] - (double)(float)mean, u = (double)slope[k] * w[k];
            sum[0] += d;
            sum[1] += d * d;
            sum[2] += u;
            sum[3] += u * d;
        }
    }
    return stats_from((float)mean, sum, s);
}

/* Computes the statistics of rows r to r + n - 1, n <= ABREAST. Performs each step for all these rows before the
 * next step, to hide latencies. */
static void
stats_abreast(const struct task *t, int64_t r, int n, struct stats *to)
{
    struct row x[ABREAST];
    float mean[ABREAST];
    double sum[ABREAST][2];
    for (int k = 0; k < n; k++) x[k] = norm_row_at(t->x, r + k, t->s->n);
    for (int k = 0; k < n; k++) mean[k] = near_mean(&x[k], t->s);
    for (int k = 0; k < n; k++) sums_around(mean[k], &x[k], sum[k]);
    for (int k = 0; k < n; k++) to[k] = stats_from(mean[k], sum[k], t->s);
    for (int k = 0; k < n; k++) {
        if (!is_far_from_zero(to[k])) continue;
        mean[k] = to[k].mean + to[k].rest;
        sums_around(mean[k], &x[k], sum[k]);
        to[k] = stats_from(mean[k], sum[k], t->s);
    }
    for (int k = 0; k < n; k++) {
        double all[4];
        const struct row none = {0};
        if (out_of_range(t->s, sum[k][1])) to[k] = stats_wide(t->s, &x[k], &none, &none, all);
    }
}

static void
forward_row_f32(const struct task *t, int64_t r, struct stats stats)
{
    int64_t size = t->s->n;
    float x_workspace[ROW_BLOCK], w_workspace[ROW_BLOCK], b_workspace[ROW_BLOCK];
    struct row x = norm_row_at(t->x, r, size), y = norm_row_at(t->to, r, size);
    struct row w = norm_row_at(t->weight, 0, size), b = norm_row_at(t->bias, 0, size);
    for (int64_t i = 0; i < size && stop_passes(i); i += ROW_BLOCK) {
        int64_t n = MIN(size - i, ROW_BLOCK);
        float *to = row_into(&y, i, x_workspace);
        scale_shift(n, row_load(&x, i, n, x_workspace), stats, load_or(&w, i, n, 1, w_workspace),
                    load_or(&b, i, n, 0, b_workspace), to, norm_ahead(t->s));
        row_store(&y, i, n, to);
    }
}

/* ---- 16-bit floats ----
 *
 * A row is read twice, and the weight with each row. Rows of at most LONGEST elements are converted to floats
 * once, ABREAST rows together. On one Zen 4 core, bf16{256,768} with weight and bias then takes 65 us, instead of
 * 117 with a conversion at each read. */

enum { LONGEST = 4096 };
struct widened {
    struct task task; /* the task on converted rows; its row 0 is the first of the rows that are converted now */
    struct view x, dy, weight, bias, to;
    float x_row[ABREAST * LONGEST], dy_row[ABREAST * LONGEST], weight_row[LONGEST], bias_row[LONGEST];
};

static bool
pays(const struct task *t)
{
    return dtype_is_half(t->x->dtype) && t->s->n <= LONGEST;
}

/* Returns a view of n elements of v, starting at element `first`, converted to floats. */
static struct view
floats_of(const struct view *v, int64_t first, int64_t n, float *row)
{
    struct view w = *v;
    w.data = (char *)v->data + first * (int64_t)dtype_bytes(v->dtype);
    if (!dtype_is_half(v->dtype)) return w;
    half_widen(v->dtype, row, w.data, n);
    w.data = row;
    w.dtype = DT_F32;
    return w;
}

static void
widen_weights(const struct task *t, struct widened *w)
{
    int64_t n = t->s->n;
    w->task = *t;
    w->task.x = &w->x;
    w->task.to = &w->to;
    if (t->dy) w->task.dy = &w->dy;
    if (t->weight && t->weight->dtype != DT_NONE) {
        w->weight = floats_of(t->weight, 0, n, w->weight_row);
        w->task.weight = &w->weight;
    }
    if (t->bias && t->bias->dtype != DT_NONE) {
        w->bias = floats_of(t->bias, 0, n, w->bias_row);
        w->task.bias = &w->bias;
    }
}

static void
widen_rows(const struct task *t, int64_t first, int rows, struct widened *w)
{
    int64_t n = t->s->n;
    w->x = floats_of(t->x, first * n, rows * n, w->x_row);
    if (t->dy) w->dy = floats_of(t->dy, first * n, rows * n, w->dy_row);
    w->to = *t->to;
    w->to.data = (char *)t->to->data + first * n * (int64_t)dtype_bytes(t->to->dtype);
}

static void
forward_rows(const struct task *t, int64_t first, int rows)
{
    struct stats stats[ABREAST];
    stats_abreast(t, first, rows, stats);
    for (int k = 0; k < rows; k++) forward_row_f32(t, first + k, stats[k]);
}

static void
forward_widened(const struct task *t, int64_t lo, int64_t hi)
{
    struct widened w;
    widen_weights(t, &w);
    for (int64_t r = lo; r < hi; r += ABREAST) {
        int rows = (int)MIN(hi - r, ABREAST);
        widen_rows(t, r, rows, &w);
        forward_rows(&w.task, 0, rows);
    }
}

static void
forward_rows_f32(void *arg, int64_t lo, int64_t hi)
{
    const struct task *t = arg;
    if (pays(t))
        forward_widened(t, lo, hi);
    else
        for (int64_t r = lo; r < hi; r += ABREAST) forward_rows(t, r, (int)MIN(hi - r, ABREAST));
}

/* Computes, for a row, the four sums of gradient_sums() (norm_level.inc), with distances from `mean`. */
static struct stats
backward_sums(const struct task *t, int64_t r, float mean, double sum[4])
{
    int64_t size = t->s->n;
    float x_workspace[ROW_BLOCK], d_workspace[ROW_BLOCK], w_workspace[ROW_BLOCK];
    struct row x = norm_row_at(t->x, r, size), dy = norm_row_at(t->dy, r, size), w = norm_row_at(t->weight, 0, size);
    for (int k = 0; k < 4; k++) sum[k] = 0;
    for (int64_t i = 0; i < size && stop_passes(i); i += ROW_BLOCK) {
        int64_t n = MIN(size - i, ROW_BLOCK);
        const float *from = row_load(&x, i, n, x_workspace), *slope = row_load(&dy, i, n, d_workspace);
        const float *weight = load_or(&w, i, n, 1, w_workspace);
        OF_LEVEL(gradient_sums)(n, from, slope, weight, mean, sum);
    }
    return stats_from(mean, sum, t->s);
}

static struct slope
norm_slope(const struct task *t, int64_t r)
{
    struct row x = norm_row_at(t->x, r, t->s->n), dy = norm_row_at(t->dy, r, t->s->n),
               w = norm_row_at(t->weight, 0, t->s->n);
    double sum[4], size = (double)t->s->n;
    struct stats stats = backward_sums(t, r, near_mean(&x, t->s), sum);
    if (is_far_from_zero(stats)) stats = backward_sums(t, r, stats.mean + stats.rest, sum);
    if (out_of_range(t->s, sum[1])) stats = stats_wide(t->s, &x, &dy, &w, sum);
    double ud = isfinite(sum[2]) ? sum[3] - (double)stats.rest * sum[2] : sum[3]; /* avoids NaN from 0 * infinity */
    float mean_ux = (float)(ud * (double)stats.rstd / size);
    return (struct slope){stats, t->s->center ? (float)(sum[2] / size) : 0, stats.rstd * mean_ux};
}

/* Computes dx of up to ABREAST cached rows, starting at row r. Adds the rows' contributions to dw and db. */
static void
backward_abreast(const struct task *t, int64_t r, int rows, const struct slope *slope, double *sum)
{
    float x_workspace[ABREAST][ROW_BLOCK], d_workspace[ABREAST][ROW_BLOCK], w_workspace[ROW_BLOCK];
    const float *x[ABREAST], *dy[ABREAST];
    float *to[ABREAST];
    int64_t size = t->s->n;
    struct row w = norm_row_at(t->weight, 0, size);
    for (int64_t i = 0; i < size && stop_passes(i); i += ROW_BLOCK) {
        int64_t n = MIN(size - i, ROW_BLOCK);
        for (int k = 0; k < rows; k++) {
            struct row from = norm_row_at(t->x, r + k, size), d_from = norm_row_at(t->dy, r + k, size);
            struct row dx = norm_row_at(t->to, r + k, size);
            x[k] = row_load(&from, i, n, x_workspace[k]);
            dy[k] = row_load(&d_from, i, n, d_workspace[k]);
            to[k] = row_into(&dx, i, x_workspace[k]);
        }
        gradients(rows, n, x, dy, load_or(&w, i, n, 1, w_workspace), slope, to, sum + i, sum + size + i);
        for (int k = 0; k < rows; k++) {
            struct row dx = norm_row_at(t->to, r + k, size);
            row_store(&dx, i, n, to[k]);
        }
    }
}

/* Returns the number of groups of rows (lots). Each group has its own sums. The number depends on sizes alone, so
 * that results do not depend on the number of threads. */
static int64_t
lots_of(const struct norm *s)
{
    enum { LOTS = 16, ELEMENTS = 32768 };
    return MAX(MIN(MIN(s->rows, LOTS), s->rows * s->n / ELEMENTS), 1);
}

static void
backward_rows(const struct task *t, int64_t first, int rows, double *sum)
{
    struct slope slope[ABREAST];
    for (int k = 0; k < rows; k++) slope[k] = norm_slope(t, first + k);
    backward_abreast(t, first, rows, slope, sum);
}

static void
backward_lots(void *arg, int64_t lo, int64_t hi)
{
    const struct task *t = arg;
    bool widens = pays(t);
    struct widened w;
    if (widens) widen_weights(t, &w);
    int64_t since = 0, bytes = 3 * t->s->n * (int64_t)sizeof(float), nlot = lots_of(t->s);
    for (int64_t lot = lo; lot < hi; lot++) {
        int64_t r = t->s->rows * lot / nlot, end = t->s->rows * (lot + 1) / nlot;
        double *sum = t->sum + lot * 2 * t->s->n;
        memset(sum, 0, (size_t)t->s->n * 2 * sizeof *sum);
        for (; r < end && !stop_after(&since, ABREAST * bytes); r += ABREAST) {
            int rows = (int)MIN(end - r, ABREAST);
            if (widens) widen_rows(t, r, rows, &w);
            backward_rows(widens ? &w.task : t, widens ? 0 : r, rows, sum);
        }
    }
}

/* Adds the sums of all groups of rows (lots), in order, to the sums of the first group, for columns lo to hi - 1.
 * The columns of dw are numbered first, then those of db. */
static void
fold_lots(void *arg, int64_t lo, int64_t hi)
{
    const struct task *t = arg;
    int64_t n = 2 * t->s->n, nlot = lots_of(t->s);
    for (int64_t lot = 1; lot < nlot; lot++) norm_accumulate(hi - lo, t->sum + lot * n + lo, t->sum + lo);
}

/* ---- running forward and backward on all threads ---- */

static const double *
given(const struct view *v)
{
    return v->dtype == DT_NONE ? NULL : v->data;
}

static int64_t
grain_f32(const struct norm *s)
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
    team_run(s->threads, s->rows, grain_f32(s), forward_rows_f32, &t);
}

size_t
norm_scratch(const struct norm *s)
{
    size_t f32 = (size_t)lots_of(s) * (size_t)s->n * 2 * sizeof(double);
    return MAX(f32, norm_f64_scratch(s));
}

static void
norm_store(const double *sum, int64_t n, const struct view *v)
{
    block_store(COMP_F64, v->dtype, sum, n, v->data, 1);
}

void
norm_backward(const struct norm *s, const struct view *x, const struct view *dy, const struct view *weight,
              const struct view to[3], void *scratch)
{
    if (x->dtype == DT_F64) {
        norm_f64_backward(s, x->data, dy->data, given(weight), to[0].data);
        norm_f64_weights(s, x->data, dy->data, to[1].data, to[2].data, scratch);
        return;
    }
    struct task t = {.s = s, .x = x, .dy = dy, .weight = weight, .to = to, .sum = scratch};
    team_run(s->threads, lots_of(s), 1, backward_lots, &t);
    team_run(s->threads, 2 * s->n, 16384, fold_lots, &t);
    norm_store(t.sum, s->n, &to[1]);
    norm_store(t.sum + s->n, s->n, &to[2]);
}
