/* log_sums.c - logarithms of sums of exponentials.
 *
 * Exponentials of floats are computed as floats; in lines whose result is near 0, as doubles. Short lines are
 * interleaved to hide latencies. On one Zen 4 core, f32{100000,10} takes 2.5 ms; without interleaving it would
 * take 5.5 to 7.3 ms. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/rows/log_sums.h"

#include "kernels/cpu/base/transpose.h"
#include "kernels/cpu/rows/rows.h"
#include "kernels/cpu/math/vmath_f64.h"
#include "runtime/base/simd.h"
#include "runtime/base/stop.h"

#include <math.h>

static_assert((int)COLS == (int)LOG_SUMS, "COLS differs from LOG_SUMS");

/* Also adds up the rounding errors of the sum (Knuth 1969), because long lines would otherwise lose digits. */
double
log_sum_wide(int64_t n, const float *x, double m)
{
    enum { BLOCK = 1024 };
    double e[BLOCK], sum = 0, lost = 0;
    for (int64_t i = 0, some; i < n && stop_passes(i); i += some) {
        some = MIN(n - i, BLOCK);
        for (int64_t j = 0; j < some; j++) e[j] = (double)x[i + j] - m;
        vec_exp_f64(some, e, e);
        for (int64_t j = 0; j < some; j++) {
            double both = sum + e[j], added = both - sum;
            lost += (sum - (both - added)) + (e[j] - added);
            sum = both;
        }
    }
    return m + log1p(sum - 1 + lost);
}

/* ---- short lines ---- */

typedef double doubles4 __attribute__((vector_size(32)));
typedef double doubles4_at __attribute__((vector_size(32), aligned(8), may_alias));

/* Transposes four elements of each of four lines. */
INLINE void
transpose_four_f64(const double *const *line, int64_t i, double *to)
{
    doubles4 a = *(const doubles4_at *)(line[0] + i), b = *(const doubles4_at *)(line[1] + i);
    doubles4 c = *(const doubles4_at *)(line[2] + i), d = *(const doubles4_at *)(line[3] + i);
    doubles4 ab = __builtin_shufflevector(a, b, 0, 4, 2, 6), ab2 = __builtin_shufflevector(a, b, 1, 5, 3, 7);
    doubles4 cd = __builtin_shufflevector(c, d, 0, 4, 2, 6), cd2 = __builtin_shufflevector(c, d, 1, 5, 3, 7);
    *(doubles4_at *)(to + (i + 0) * COLS) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    *(doubles4_at *)(to + (i + 1) * COLS) = __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5);
    *(doubles4_at *)(to + (i + 2) * COLS) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    *(doubles4_at *)(to + (i + 3) * COLS) = __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7);
}

/* Stores element i of line l at to[i * COLS + l], for COLS lines. If there are fewer lines, repeats the last line. */
VECTOR static void
turn_doubles(int64_t n, int64_t count, const double *x, double *to)
{
    const double *line[COLS];
    int64_t n4 = n / 4 * 4;
    for (int64_t l = 0; l < COLS; l++) line[l] = x + MIN(l, count - 1) * n;
    for (int64_t i = 0; i < n4; i += 4)
        for (int l = 0; l < COLS; l += 4) transpose_four_f64(line + l, i, to + l);
    for (int64_t i = n4; i < n; i++)
        for (int l = 0; l < COLS; l++) to[i * COLS + l] = line[l][i];
}

static void
turn_floats(int64_t n, int64_t count, const float *x, double *to)
{
    float turned[LOG_SUM_SHORT * COLS];
    transpose_cols(count, n, x, n, turned, COLS);
    for (int64_t i = 0; i < n; i++)
        for (int64_t l = count; l < COLS; l++) turned[i * COLS + l] = turned[i * COLS + count - 1];
    for (int64_t i = 0; i < n * COLS; i++) to[i] = (double)turned[i];
}

VECTOR static void
greatest_of_columns(int64_t n, const double *x, double *m)
{
    for (int l = 0; l < COLS; l++) m[l] = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        for (int l = 0; l < COLS; l++) m[l] = x[i * COLS + l] > m[l] ? x[i * COLS + l] : m[l];
}

/* Defines below_NAME, which subtracts from each x the maximum of its line, and down_NAME, which sums each line. */
#define COLUMNS(name, type)                                                                                            \
    VECTOR static void below_##name(int64_t n, const double *x, const double *m, type *less)                           \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++)                                                                                \
            for (int l = 0; l < COLS; l++) less[i * COLS + l] = (type)(x[i * COLS + l] - m[l]);                        \
    }                                                                                                                  \
    VECTOR static void down_##name(int64_t n, const type *x, double *sum)                                              \
    {                                                                                                                  \
        for (int l = 0; l < COLS; l++) sum[l] = 0;                                                                     \
        for (int64_t i = 0; i < n; i++)                                                                                \
            for (int l = 0; l < COLS; l++) sum[l] += (double)x[i * COLS + l];                                          \
    }
COLUMNS(f32, float)
COLUMNS(f64, double)

/* Sets y = m + log(sum) for each line. */
static void
logarithms(const double *m, const double *sum, double *y)
{
    const struct call plain = {.attr = (struct attr[OP_ATTR]){{0}}};
    f64_log(&plain, COLS, (const double *const[]){sum}, y);
    for (int l = 0; l < COLS; l++) y[l] += m[l];
}

static void
by_floats(int64_t n, const double *x, const double *m, double *y)
{
    float less[LOG_SUM_SHORT * COLS];
    double sum[COLS];
    below_f32(n, x, m, less);
    vec_exp_below(n * COLS, less, 0, less);
    down_f32(n, less, sum);
    logarithms(m, sum, y);
}

static void
by_doubles(int64_t n, const double *x, const double *m, double *y)
{
    double less[LOG_SUM_SHORT * COLS], sum[COLS];
    below_f64(n, x, m, less);
    vec_exp_f64(n * COLS, less, less);
    down_f64(n, less, sum);
    logarithms(m, sum, y);
}

/* Returns the result of a line whose maximum is not finite: infinity or NaN. */
static double
unlimited(int64_t n, const double *x)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += exp(x[i * COLS]);
    return log(sum);
}

void
log_sums_short(enum dtype d, int64_t n, int64_t count, const void *x, double *y)
{
    enum { FEW = 16 }; /* lines of at most FEW floats use doubles, because most of their results are near 0 */
    _Alignas(64) double at[LOG_SUM_SHORT * COLS], m[COLS], narrow[COLS], wide[COLS];
    bool floats = d == DT_F32 && n > FEW, near = false;
    d == DT_F64 ? turn_doubles(n, count, x, at) : turn_floats(n, count, x, at);
    greatest_of_columns(n, at, m);
    if (floats) by_floats(n, at, m, narrow);
    for (int l = 0; l < COLS; l++) near = near || !floats || log_sum_is_near(narrow[l]);
    if (near) by_doubles(n, at, m, wide);
    for (int64_t l = 0; l < count; l++)
        y[l] = !isfinite(m[l]) ? unlimited(n, at + l) : floats && !log_sum_is_near(narrow[l]) ? narrow[l] : wide[l];
}
