/* pool.c - windows over one plane of an image, row by row in lanes.
 *
 * 3x3 in steps of 2 over f32 32x64x112x112, in ms, on one core of an EPYC (Zen 5); oneDNN on the same dense memory, and
 * told where the greatest stand; what reading and writing each byte once takes:
 *                          here  window by window  oneDNN  memory
 *   greatest                3.6                46     9.2     2.1
 *   mean                    3.9                38     9.0     2.1
 *   gradient of a mean      6.9                      11.5     2.1
 *   of the greatest        13.6                      12.9     3.8
 * Of doubles, 8x64x112x112 on one core of a Zen 4: greatest 4.1, window by window 68; mean 3.3 and 25; with gradients
 * 12 and 72, 7 and 32. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/pool.h"

#include "runtime/simd.h"
#include "runtime/stop.h"

#include <math.h>
#include <string.h>

enum { LANES = PLANE_LANES, AHEAD = 8192, LINE = 64 }; /* bytes that are asked for ahead, of a line of the cache */

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

/* Windows of a row, so many that vectors are full where loops are vectorised: rows in workspace are longer than need
 * be. */
INLINE int64_t
rounded(const struct plane *p)
{
    return p->window[1].stride <= 2 && p->lanes == 1 ? (p->m[1] + LANES - 1) / LANES * LANES : p->m[1];
}

/* Entries of a row of the image with its padding, as far as those windows reach; and one more, for add_two(). */
INLINE int64_t
padded(const struct plane *p)
{
    const struct window *w = &p->window[1];
    int64_t reach = (rounded(p) - 1) * w->stride + w->dilation * (w->kernel - 1) + 1;
    return (MAX(reach, w->padding + p->n[1]) + 1) * p->lanes;
}

/* Two padded rows and three rows of windows. */
size_t
plane_workspace(const struct plane *p, size_t bytes)
{
    return (size_t)(2 * padded(p) + 3 * rounded(p) * p->lanes) * bytes;
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
#include "kernels/cpu/pool_loop.inc"

#define OF(name) name##_f64
#define REAL     double
#define KEY      int64_t
#define KEY_MIN  INT64_MIN
#define KEY_MAX  INT64_MAX
#include "kernels/cpu/pool_loop.inc"

const struct plane_fn plane_max = {max_f32, max_f64}, plane_max_back = {max_back_f32, max_back_f64},
                      plane_max_pick = {max_pick_f32, max_pick_f64}, plane_mean = {mean_f32, mean_f64},
                      plane_mean_back = {mean_back_f32, mean_back_f64};
