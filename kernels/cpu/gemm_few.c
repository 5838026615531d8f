/* gemm_few.c - products of a few rows: columns of b are read as four streams, each in its order; rows one by one.
 *
 * A core fetches ahead in each stream by itself, so that four come from memory faster than one. One core of an EPYC
 * that others used as well, 1 x 768 x 50,257: 33 to 35 GB of b a second, 48 products of 768 x 768 one after the other
 * 34 to 42, where oneDNN's take 26 and 22 and a sum of such memory 32. Cores of Intel's are asked for what lies a
 * little further into the second cache all the same, since a stream of some hundred KB is over before they are far
 * ahead: on a Xeon (Sapphire Rapids) four streams of 1.2 MB in all go from 14.0 to 15.8 GB/s, one of 197 KB from 10.8
 * to 13.8. On the EPYC (Zen 5) that would cost: 31 GB/s for 35, and 23 for 30 of columns of 64. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/gemm_few.h"

#include "kernels/cpu/lanes.h"
#include "runtime/simd.h"

enum {
    STREAMS = 4,
    AHEAD = 1024,         /* floats, of a single stream */
    AHEAD_OF_FOUR = 2048, /* bytes */
    ROWS_AHEAD = 16,
    STRIP = 4
}; /* the order of additions is fixed: LANES sums side by side */
typedef uint16_t sixteen_halves __attribute__((vector_size(32)));
typedef uint32_t sixteen_bits __attribute__((vector_size(64)));

INLINE four
by_halves(const sixteen *x)
{
    eight half = LOWER(*x) + UPPER(*x);
    return LOWER4(half) + UPPER4(half);
}

/* The sums of the lanes of four vectors: one after the other would take longer than a short column. */
INLINE four
sums_of(const sixteen *v)
{
    four a = by_halves(&v[0]), b = by_halves(&v[1]), c = by_halves(&v[2]), d = by_halves(&v[3]);
    four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    four ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    return (__builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5)) +
           (__builtin_shufflevector(ab, cd, 2, 3, 6, 7) + __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7));
}

/* Columns of floats, or of bf16, the upper halves of floats. */
INLINE const void *
entry(const void *column, int64_t l, bool halves)
{
    return (const char *)column + l * (halves ? 2 : 4);
}

INLINE void
lanes_at(const void *column, int64_t l, bool halves, sixteen *to)
{
    sixteen_halves x;
    if (halves) {
        memcpy(&x, entry(column, l, true), sizeof x);
        *to = (sixteen)(__builtin_convertvector(x, sixteen_bits) << 16);
    } else {
        *to = AT((const float *)column + l);
    }
}

INLINE float
number_at(const void *column, int64_t l, bool halves)
{
    if (!halves) return ((const float *)column)[l];
    return float_of((uint32_t)((const uint16_t *)column)[l] << 16);
}

/* Row i of c in n columns: what is summed of whole vectors, and the rest of each column. */
INLINE void
finish(const struct few *p, int i, int n, bool halves, four sum, const void *const *b, float *const *c)
{
    float total[STREAMS];
    memcpy(total, &sum, sizeof total);
    for (int j = 0; j < n; j++) {
        for (int64_t l = p->k - p->k % LANES; l < p->k; l++)
            total[j] += p->a[i * p->a_row + l] * number_at(b[j], l, halves);
        c[j][i * p->c_row] = total[j];
    }
}

/* n columns of c, each from its column of b, side by side. */
INLINE void
columns(const struct few *p, int m, int n, bool halves, int64_t ahead, const void *const *b, float *const *c)
{
    sixteen sum[GEMM_FEW][STREAMS];
    for (int i = 0; i < m; i++)
        for (int j = 0; j < STREAMS; j++) sum[i][j] = (sixteen){0};
    for (int64_t l = 0; l + LANES <= p->k; l += LANES)
        for (int j = 0; j < n; j++) {
            __builtin_prefetch((const char *)entry(b[j], l, halves) + ahead * AHEAD_OF_FOUR, 0, 2);
            sixteen y;
            lanes_at(b[j], l, halves, &y);
            for (int i = 0; i < m; i++) sum[i][j] += AT(p->a + i * p->a_row + l) * y;
        }
    for (int i = 0; i < m; i++) finish(p, i, n, halves, sums_of(sum[i]), b, c);
}

/* Sums at the end of each column keep a core from reading on by itself. */
INLINE void
column(int64_t k, int64_t ahead, const float *a, const float *b, sixteen *sum)
{
    sixteen all = {0};
    for (int64_t l = 0; l + LANES <= k; l += LANES) {
        __builtin_prefetch(b + l + ahead * AHEAD, 0, 2);
        all += AT(a + l) * AT(b + l);
    }
    *sum = all;
}

/* The same one after the other. */
INLINE void
columns_in_turn(const struct few *p, int m, int n, int64_t ahead, const void *const *b, float *const *c)
{
    for (int i = 0; i < m; i++) {
        const float *a = p->a + i * p->a_row;
        sixteen sum[STREAMS] = {{0}};
        for (int j = 0; j < n; j++) column(p->k, ahead, a, b[j], &sum[j]);
        finish(p, i, n, false, sums_of(sum), b, c);
    }
}

/* Short columns are one stream, read in its order: streams of a few of them would end before a core fetches ahead. Of
 * 12 x 128 columns of 64, 393 KB from memory, 24 us become 10. */
INLINE void
rows(const struct few *p, int m, bool in_turn, bool halves, int64_t lo, int64_t hi)
{
    int64_t each = (hi - lo) / STREAMS, apart = in_turn ? 1 : each, step = in_turn ? STREAMS : 1;
    int64_t ahead = !machine_fetches_ahead(); /* 1, or 0: where it reads is asked for, which costs nothing */
    const void *b[STREAMS];
    float *c[STREAMS];
    for (int64_t t = 0, j = lo; t < each; t++, j += step) {
        for (int s = 0; s < STREAMS; s++) {
            b[s] = entry(p->b, (j + s * apart) * p->b_col, halves);
            c[s] = p->c + (j + s * apart) * p->c_col;
        }
        in_turn ? columns_in_turn(p, m, STREAMS, ahead, b, c) : columns(p, m, STREAMS, halves, ahead, b, c);
    }
    for (int64_t j = lo + STREAMS * each; j < hi; j++) {
        b[0] = entry(p->b, j * p->b_col, halves);
        c[0] = p->c + j * p->c_col;
        in_turn ? columns_in_turn(p, m, 1, ahead, b, c) : columns(p, m, 1, halves, ahead, b, c);
    }
}

/* ---- b row by row ---- */

/* Columns from j on, `wide` vectors of them, whose sums stay in registers while b's rows pass. */
INLINE void
strip(const struct few *p, int m, int wide, int64_t j)
{
    sixteen sum[GEMM_FEW][STRIP] = {{{0}}};
    for (int64_t l = 0; l < p->k; l++)
        for (int v = 0; v < wide; v++) {
            const float *b = (const float *)p->b + l * p->b_row + j + v * LANES;
            __builtin_prefetch(b + ROWS_AHEAD * p->b_row, 0, 2);
            sixteen y = AT(b);
            for (int i = 0; i < m; i++) sum[i][v] += p->a[i * p->a_row + l * p->a_col] * y;
        }
    for (int i = 0; i < m; i++) memcpy(p->c + i * p->c_row + j, sum[i], (size_t)wide * sizeof(sixteen));
}

INLINE void
strips(const struct few *p, int m, int64_t lo, int64_t hi)
{
    int64_t j = lo;
    for (; j + STRIP * LANES <= hi; j += STRIP * LANES) strip(p, m, STRIP, j);
    for (; j + LANES <= hi; j += LANES) strip(p, m, 1, j);
    for (; j < hi; j++)
        for (int i = 0; i < m; i++) {
            float sum = 0;
            for (int64_t l = 0; l < p->k; l++)
                sum += p->a[i * p->a_row + l * p->a_col] * ((const float *)p->b)[l * p->b_row + j];
            p->c[i * p->c_row + j] = sum;
        }
}

/* ---- all ---- */

INLINE void
any(const struct few *p, int m, int64_t lo, int64_t hi)
{
    if (p->halves)
        rows(p, m, false, true, lo, hi);
    else if (p->b_row == 1 && p->k < GEMM_SHORT)
        rows(p, m, true, false, lo, hi);
    else if (p->b_row == 1)
        rows(p, m, false, false, lo, hi);
    else
        strips(p, m, lo, hi);
}

VECTOR static void
by_rows(const struct few *p, int64_t lo, int64_t hi)
{
    switch (p->m) {
    case 1: any(p, 1, lo, hi); break;
    case 2: any(p, 2, lo, hi); break;
    case 3: any(p, 3, lo, hi); break;
    default: any(p, GEMM_FEW, lo, hi);
    }
}

void
gemm_few(const struct few *p, int64_t lo, int64_t hi)
{
    by_rows(p, lo, hi);
}
