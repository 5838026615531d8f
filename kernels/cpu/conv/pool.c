/* pool.c - pooling: windows over one plane of an image, computed row by row with vector instructions.
 *
 * Times for windows of 3x3, stride 2, over f32 32x64x112x112, on one Zen 5 (EPYC) core, ms. memory: the time of
 * reading and writing each byte once; oneDNN reads and writes the same dense memory and, for the gradient of a
 * maximum, the positions of the maxima.
 *
 *                         pool.c  window by window  oneDNN  memory
 *   maximum                  3.6                46     9.2     2.1
 *   mean                     3.9                38     9.0     2.1
 *   gradient of a mean       6.9                      11.5     2.1
 *   gradient of a maximum   13.6                      12.9     3.8
 *
 * Times for doubles, 8x64x112x112, on one Zen 4 core, ms:
 *
 *                                  pool.c  window by window
 *   maximum                           4.1                68
 *   mean                              3.3                25
 *   maximum and its gradient           12                72
 *   mean and its gradient               7                32 */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/conv/pool.h"

#include "kernels/cpu/rows/fold.h"
#include "runtime/base/simd.h"
#include "runtime/base/stop.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { LANES = PLANE_LANES, AHEAD = 8192, LINE = 64 }; /* AHEAD: prefetch distance; LINE: cache line; both in bytes */

/* ---- windows ---- */

struct span
plane_span(const struct plane *p, int i, int64_t u)
{
    const struct window *w = &p->window[i];
    int64_t start = u * w->stride - w->padding, end = start + w->dilation * (w->kernel - 1) + 1;
    int64_t lo = start < 0 ? start + (w->dilation - 1 - start) / w->dilation * w->dilation : start;
    int64_t hi = MIN(end, p->n[i]);
    return (struct span){lo, hi, p->count_padding ? MIN(end, p->n[i] + w->padding) - start : hi - lo};
}

/* Returns the number of windows per row, rounded up so that vectorised loops have full vectors. In workspace, rows
 * of windows have this length. */
INLINE int64_t
pool_padded(const struct plane *p)
{
    return p->window[1].stride <= 2 && p->lanes == 1 ? (p->m[1] + LANES - 1) / LANES * LANES : p->m[1];
}

/* Returns the number of entries of a padded image row: the entries that pool_padded() windows cover, and one more,
 * which add_two() accesses. */
INLINE int64_t
padded(const struct plane *p)
{
    const struct window *w = &p->window[1];
    int64_t reach = (pool_padded(p) - 1) * w->stride + w->dilation * (w->kernel - 1) + 1;
    return (MAX(reach, w->padding + p->n[1]) + 1) * p->lanes;
}

/* Returns the size of the workspace, which holds two padded rows and three rows of windows. */
size_t
plane_workspace(const struct plane *p, size_t bytes)
{
    return (size_t)(2 * padded(p) + 3 * pool_padded(p) * p->lanes) * bytes;
}

bool
plane_fits(const struct plane *p)
{
    bool little = p->window[0].padding <= p->n[0] && p->window[1].padding <= p->n[1];
    return little && p->n[0] < INT32_MAX && p->n[1] < INT32_MAX && p->n[0] * p->n[1] < INT32_MAX / LANES;
}

/* ---- rows ---- */

#define OF(name) name##_f32
#define REAL     float
#define KEY      int32_t
#define KEY_MIN  INT32_MIN
#define KEY_MAX  INT32_MAX
#include "kernels/cpu/conv/pool_loop.inc"

#define OF(name) name##_f64
#define REAL     double
#define KEY      int64_t
#define KEY_MIN  INT64_MIN
#define KEY_MAX  INT64_MAX
#include "kernels/cpu/conv/pool_loop.inc"

/* ---- means of many floats, in f64 ----
 *
 * The mean of each whole plane of f32 32x64x112x112 takes 7.6 ms on two EPYC cores; in f32 it would take 8.0 ms. */

bool
plane_mean_is_long(const struct plane *p)
{
    return p->window[0].kernel > PLANE_LONG / p->window[1].kernel;
}

/* Returns the range of windows that contain entry h of the image. */
static struct span
covering(const struct plane *p, int i, int64_t h)
{
    const struct window *w = &p->window[i];
    int64_t first = h + w->padding - w->kernel + 1, last = (h + w->padding) / w->stride;
    assert(w->dilation == 1);
    return (struct span){.lo = first > 0 ? (first + w->stride - 1) / w->stride : 0, .hi = MIN(last + 1, p->m[i])};
}

bool
plane_mean_back_is_long(const struct plane *p)
{
    int64_t most[2];
    for (int i = 0; i < 2; i++)
        most[i] = MIN(p->m[i], (p->window[i].kernel + p->window[i].stride - 1) / p->window[i].stride);
    return most[0] > PLANE_LONG / most[1];
}

VECTOR static void
add_quotients(int64_t n, const float *x, double by, double *sum)
{
    for (int64_t i = 0; i < n; i++) sum[i] += (double)x[i] / by;
}

VECTOR static double
sum_window(int64_t n, const double *x)
{
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += x[i + l];
    for (int l = 0; l < LANES; l++) sum += lane[l];
    for (; i < n; i++) sum += x[i];
    return sum;
}

static void
mean_long(const struct plane *p, const void *const *operand, void *result, void *workspace)
{
    const float *x = operand[0];
    float *y = result;
    double *row = workspace;
    for (int64_t u = 0; u < p->m[0] && !stop_now(); u++) {
        struct span h = plane_span(p, 0, u);
        memset(row, 0, (size_t)p->n[1] * sizeof *row);
        for (int64_t i = h.lo; i < h.hi; i++) fold_add(x + i * p->n[1], p->n[1], row);
        for (int64_t v = 0; v < p->m[1]; v++) {
            struct span w = plane_span(p, 1, v);
            *y++ = (float)(sum_window(w.hi - w.lo, row + w.lo) / (double)(h.count * w.count));
        }
    }
}

static void
mean_back_long(const struct plane *p, const void *const *operand, void *result, void *workspace)
{
    const float *dy = operand[0];
    float *dx = result;
    double *row = workspace;
    for (int64_t i = 0; i < p->n[0] && !stop_now(); i++) {
        struct span h = covering(p, 0, i);
        memset(row, 0, (size_t)p->m[1] * sizeof *row);
        for (int64_t u = h.lo; u < h.hi; u++)
            add_quotients(p->m[1], dy + u * p->m[1], (double)plane_span(p, 0, u).count, row);
        for (int64_t v = 0; v < p->m[1]; v++) row[v] /= (double)plane_span(p, 1, v).count;
        for (int64_t j = 0; j < p->n[1]; j++) {
            struct span w = covering(p, 1, j);
            *dx++ = w.lo < w.hi ? (float)sum_window(w.hi - w.lo, row + w.lo) : 0;
        }
    }
}

const struct plane_fn plane_max = {max_f32, max_f64, false}, plane_max_back = {max_back_f32, max_back_f64, false},
                      plane_max_pick = {max_pick_f32, max_pick_f64, false}, plane_mean = {mean_f32, mean_f64, false},
                      plane_mean_back = {mean_back_f32, mean_back_f64, false},
                      plane_mean_long = {mean_long, mean_f64, true},
                      plane_mean_back_long = {mean_back_long, mean_back_f64, true};
