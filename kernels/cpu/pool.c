/* pool.c - windows over one plane of an image, row by row in lanes.
 *
 * 3x3 in steps of 2 over f32 32x64x112x112, in ms, on one core of an EPYC (Zen 5); oneDNN on the same dense memory, and
 * told where the greatest stand; what reading and writing each byte once takes:
 *                          here  window by window  oneDNN  memory
 *   greatest                3.6                46     9.2     2.1
 *   mean                    3.9                38     9.0     2.1
 *   gradient of a mean      6.9                      11.5     2.1
 *   of the greatest        13.6                      12.9     3.8 */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/pool.h"

#include "runtime/simd.h"
#include "runtime/stop.h"

#include <math.h>
#include <string.h>

enum { LANES = PLANE_LANES, AHEAD = 2048 };

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
plane_workspace(const struct plane *p)
{
    return (size_t)(2 * padded(p) + 3 * rounded(p) * p->lanes) * sizeof(float);
}

bool
plane_fits(const struct plane *p)
{
    bool little = p->window[0].padding <= p->n[0] && p->window[1].padding <= p->n[1];
    return little && p->n[0] < INT32_MAX && p->n[1] < INT32_MAX && p->n[0] * p->n[1] < INT32_MAX / LANES;
}

/* ---- rows ---- */

/* Rows are short and come from several places at once, so that the processor does not see that memory is walked from
 * end to end. It is told of what comes 8 KiB later; n entries are read, or written, in the meantime. */
INLINE void
soon_read(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += LANES) __builtin_prefetch(x + i + AHEAD);
}

INLINE void
soon_written(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += LANES) __builtin_prefetch(x + i + AHEAD, 1);
}

INLINE void
fill(int64_t n, float value, float *x)
{
    for (int64_t i = 0; i < n; i++) x[i] = value;
}

/* Of an image that gradients are added to, clears the rows from..to just before the first is. */
INLINE int64_t
clear_rows(const struct plane *p, int64_t from, int64_t to, float *x)
{
    if (to <= from) return from;
    int64_t row = p->n[1] * p->lanes, n = (to - from) * row;
    x += from * row;
    soon_written(x, n);
    fill(n, 0, x);
    return to;
}

/* ---- greatest entries, means ---- */

/* Of two entries, NaN being the greatest, or their sum. */
INLINE float
join(float a, float b, bool max)
{
    float more = b > a ? b : a; /* a, if it is NaN */
    return !max ? a + b : b != b ? b : more;
}

INLINE void
join_three(int64_t n, const float *a, const float *b, const float *c, int64_t stride, bool max, float *to)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) to[i] = join(join(a[i * stride], b[i * stride], max), c[i * stride], max);
}

INLINE void
join_one(int64_t n, const float *a, int64_t stride, bool max, float *to)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) to[i] = join(to[i], a[i * stride], max);
}

/* Joins k rows that are `step` apart; none is a row that changes nothing. */
INLINE void
join_rows(int64_t n, const float *x, int64_t k, int64_t step, int64_t stride, const float *none, bool max, float *to)
{
    join_three(n, k > 0 ? x : none, k > 1 ? x + step : none, k > 2 ? x + 2 * step : none, stride, max, to);
    for (int64_t i = 3; i < k; i++) join_one(n, x + i * step, stride, max, to);
}

/* The entries of each window in a padded row. gcc vectorises strides that it knows. */
INLINE void
join_beside(const struct plane *p, const float *row, const float *none, bool max, float *to)
{
    const struct window *w = &p->window[1];
    int64_t m = p->m[1], step = w->dilation * p->lanes;
    if (p->lanes == LANES)
        for (int64_t j = 0; j < m; j++)
            join_rows(LANES, row + j * w->stride * LANES, w->kernel, step, 1, none, max, to + j * LANES);
    else if (w->stride == 1)
        join_rows(m, row, w->kernel, step, 1, none, max, to);
    else if (w->stride == 2)
        join_rows(m, row, w->kernel, step, 2, none, max, to);
    else
        join_rows(m, row, w->kernel, step, w->stride, none, max, to);
}

/* Row u of windows; row is a padded one. */
INLINE struct span
join_window(const struct plane *p, const float *x, int64_t u, float *row, const float *none, bool max, float *to)
{
    const struct window *h = &p->window[0];
    struct span s = plane_span(p, 0, u);
    int64_t n = p->n[1] * p->lanes, k = (s.hi - s.lo + h->dilation - 1) / h->dilation;
    soon_read(x + s.lo * n, h->stride * n);
    join_rows(n, x + s.lo * n, k, h->dilation * n, 1, none, max, row + p->window[1].padding * p->lanes);
    join_beside(p, row, none, max, to);
    return s;
}

VECTOR void
plane_max(const struct plane *p, const float *const *in, float *out, void *workspace)
{
    int64_t m = p->m[1] * p->lanes, width = padded(p);
    float *row = workspace, *none = row + width;
    fill(2 * width, -INFINITY, row);
    for (int64_t u = 0; u < p->m[0] && !stop_now(); u++, out += m) join_window(p, in[0], u, row, none, true, out);
}
EXPORTED(plane_max)

INLINE void
columns_of(const struct plane *p, float *count)
{
    for (int64_t j = 0; j < p->m[1]; j++, count += p->lanes) fill(p->lanes, (float)plane_span(p, 1, j).count, count);
}

/* y = x / (rows * columns) */
INLINE void
divide(int64_t n, const float *x, float rows, const float *columns, float *y)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) y[i] = x[i] / (rows * columns[i]);
}

VECTOR void
plane_mean(const struct plane *p, const float *const *in, float *out, void *workspace)
{
    int64_t m = p->m[1] * p->lanes, width = padded(p);
    float *row = workspace, *none = row + width, *columns = none + width;
    fill(2 * width, 0, row);
    columns_of(p, columns);
    for (int64_t u = 0; u < p->m[0] && !stop_now(); u++, out += m) {
        struct span s = join_window(p, in[0], u, row, none, false, out);
        divide(m, out, (float)s.count, columns, out);
    }
}
EXPORTED(plane_mean)

/* ---- the gradient of a mean ---- */

/* Adds two entries to every window, so that no gaps are left to write over. */
INLINE void
add_two(int64_t n, const float *a, const float *b, float *to)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        to[2 * i] += a[i];
        to[2 * i + 1] += b[i];
    }
}

/* Adds entry j of x to the entries of window j in a padded row; zero is a row of windows. The windows that an entry is
 * in come from the right to the left, in all cases. */
INLINE void
spread(const struct plane *p, const float *x, const float *zero, float *to)
{
    const struct window *w = &p->window[1];
    int64_t m = p->m[1];
    if (p->lanes == LANES) {
        for (int64_t q = 0; q < w->kernel; q++)
            for (int64_t j = 0; j < m; j++) join_one(LANES, x + j * LANES, 1, false, to + (j * w->stride + q) * LANES);
    } else if (w->stride == 1) {
        for (int64_t q = 0; q < w->kernel; q++) join_one(m, x, 1, false, to + q);
    } else if (w->stride == 2) {
        for (int64_t q = 0; q < w->kernel; q += 2) add_two(m, x, q + 1 < w->kernel ? x : zero, to + q);
    } else {
        for (int64_t q = 0; q < w->kernel; q++)
            for (int64_t j = 0; j < m; j++) to[j * w->stride + q] += x[j];
    }
}

VECTOR void
plane_mean_back(const struct plane *p, const float *const *in, float *out, void *workspace)
{
    const float *dy = in[0];
    int64_t n = p->n[1] * p->lanes, m = p->m[1] * p->lanes, width = padded(p), clear = 0;
    float *row = workspace, *columns = row + width, *zero = columns + m, *share = zero + m;
    const float *mid = row + p->window[1].padding * p->lanes;
    columns_of(p, columns);
    fill(m, 0, zero);
    for (int64_t u = 0; u < p->m[0] && !stop_now(); u++, dy += m) {
        struct span s = plane_span(p, 0, u);
        clear = clear_rows(p, clear, s.hi, out);
        soon_read(dy, m);
        divide(m, dy, (float)s.count, columns, share);
        fill(width, 0, row);
        spread(p, share, zero, row);
        for (int64_t i = s.lo; i < s.hi; i++) join_one(n, mid, 1, false, out + i * n);
    }
    clear_rows(p, clear, p->n[0], out);
}
EXPORTED(plane_mean_back)

/* ---- where the greatest stand ----
 *
 * An entry is a key whose order as an integer is that of its value, all NaN equal and above infinity, and its position
 * in the plane. Of equal keys the least position wins, so they may be combined in any order. */

enum { NOTHING = INT32_MIN, NOWHERE = INT32_MAX };

struct best {
    int32_t *key, *at;
};

INLINE struct best
best_at(struct best b, int64_t i)
{
    return (struct best){b.key + i, b.at + i};
}

INLINE int32_t
key_of(float x)
{
    int32_t bits = (int32_t)bits_of(x + 0.0f); /* -0 is 0 */
    return x != x ? INT32_MAX : bits ^ (bits >> 31 & INT32_MAX);
}

INLINE void
best_clear(int64_t n, struct best b)
{
    for (int64_t i = 0; i < n; i++) b.key[i] = NOTHING;
    for (int64_t i = 0; i < n; i++) b.at[i] = NOWHERE;
}

/* A row of the image, whose entries are at `first` and on. Rows come from the top: the first of equals is there. */
INLINE void
best_above(int32_t n, const float *x, int32_t first, bool is_top, struct best to)
{
    int32_t *key = to.key, *at = to.at;
    INDEPENDENT
    for (int32_t i = 0; i < n; i++) {
        int32_t k = key_of(x[i]);
        at[i] = is_top || k > key[i] ? first + i : at[i];
        key[i] = is_top || k > key[i] ? k : key[i];
    }
}

INLINE void
best_beside(int64_t n, struct best from, int64_t stride, bool is_left, struct best to)
{
    int32_t *key = to.key, *at = to.at;
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        int32_t k = from.key[i * stride], a = from.at[i * stride], first = a < at[i] ? a : at[i];
        at[i] = is_left || k > key[i] ? a : k == key[i] ? first : at[i];
        key[i] = is_left || k > key[i] ? k : key[i];
    }
}

/* n windows, whose columns are `step` apart. */
INLINE void
best_columns(int64_t n, struct best from, int64_t kernel, int64_t step, int64_t stride, struct best to)
{
    best_beside(n, from, stride, true, to);
    for (int64_t q = 1; q < kernel; q++) best_beside(n, best_at(from, q * step), stride, false, to);
}

INLINE void
best_windows(const struct plane *p, struct best row, struct best to)
{
    const struct window *w = &p->window[1];
    int64_t m = rounded(p), step = w->dilation * p->lanes;
    if (p->lanes == LANES)
        for (int64_t j = 0; j < m; j++)
            best_columns(LANES, best_at(row, j * w->stride * LANES), w->kernel, step, 1, best_at(to, j * LANES));
    else if (w->stride == 1)
        best_columns(m, row, w->kernel, step, 1, to);
    else if (w->stride == 2)
        best_columns(m, row, w->kernel, step, 2, to);
    else
        best_columns(m, row, w->kernel, step, w->stride, to);
}

/* What positions() works with: a padded row and a row of windows. */
struct bests {
    struct best row, to;
};

INLINE struct bests
bests_open(const struct plane *p, int32_t *workspace)
{
    int64_t m = rounded(p) * p->lanes, width = padded(p);
    struct bests b = {{workspace, workspace + width}, {workspace + 2 * width, workspace + 2 * width + m}};
    best_clear(width, b.row);
    return b;
}

/* Gives the positions that row u of windows takes its entries from. */
INLINE const int32_t *
positions(const struct plane *p, const float *x, int64_t u, const struct bests *b)
{
    const struct window *h = &p->window[0];
    int64_t n = p->n[1] * p->lanes;
    struct best mid = best_at(b->row, p->window[1].padding * p->lanes);
    struct span s = plane_span(p, 0, u);
    soon_read(x + s.lo * n, h->stride * n);
    if (s.lo >= s.hi)
        best_clear(n, mid);
    else
        best_above((int32_t)n, x + s.lo * n, (int32_t)(s.lo * n), true, mid);
    for (int64_t i = s.lo + h->dilation; i < s.hi; i += h->dilation)
        best_above((int32_t)n, x + i * n, (int32_t)(i * n), false, mid);
    best_windows(p, b->row, b->to);
    return b->to.at;
}

VECTOR void
plane_max_back(const struct plane *p, const float *const *in, float *out, void *workspace)
{
    const struct bests b = bests_open(p, workspace);
    const float *dy = in[1];
    int64_t m = p->m[1] * p->lanes, clear = 0;
    for (int64_t u = 0; u < p->m[0] && !stop_now(); u++, dy += m) {
        const int32_t *at = positions(p, in[0], u, &b);
        clear = clear_rows(p, clear, plane_span(p, 0, u).hi, out);
        soon_read(dy, m);
        for (int64_t j = 0; j < m; j++)
            if (at[j] != NOWHERE) out[at[j]] += dy[j];
    }
    clear_rows(p, clear, p->n[0], out);
}
EXPORTED(plane_max_back)

VECTOR void
plane_max_pick(const struct plane *p, const float *const *in, float *out, void *workspace)
{
    const struct bests b = bests_open(p, workspace);
    int64_t m = p->m[1] * p->lanes;
    for (int64_t u = 0; u < p->m[0] && !stop_now(); u++, out += m) {
        const int32_t *at = positions(p, in[0], u, &b);
        for (int64_t j = 0; j < m; j++) out[j] = at[j] == NOWHERE ? 0 : in[1][at[j]];
    }
}
EXPORTED(plane_max_pick)
