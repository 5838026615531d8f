/* gemm_few.c - products of a few rows: columns of b are read as four streams, each in its order.
 *
 * A core fetches ahead in each stream by itself, so that four come from memory faster than one. One core of an EPYC
 * that others used as well, 1 x 768 x 50,257: 33 to 35 GB of b a second, 48 products of 768 x 768 one after the other
 * 34 to 42, where oneDNN's take 26 and 22 and a sum of such memory 32. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/gemm_few.h"

#include "runtime/simd.h"

enum { STREAMS = 4, LANES = 16 }; /* LANES sums side by side: the order of additions is fixed */
typedef float floats __attribute__((vector_size(LANES * 4)));
typedef float half __attribute__((vector_size(LANES * 2)));
typedef float quarter __attribute__((vector_size(LANES)));

/* In pairs: one after the other would take longer than a short column. */
INLINE float
sum_of(const floats *x)
{
    half h[2];
    quarter q[2];
    memcpy(h, x, sizeof h);
    h[0] += h[1];
    memcpy(q, h, sizeof q);
    q[0] += q[1];
    return (q[0][0] + q[0][2]) + (q[0][1] + q[0][3]);
}

/* n columns of c, each from its column of b. */
INLINE void
columns(const struct few *p, int m, int n, const float *const *b, float *const *c)
{
    floats sum[GEMM_FEW][STREAMS] = {{{0}}}, x, y;
    int64_t even = p->k - p->k % LANES;
    for (int64_t l = 0; l < even; l += LANES)
        for (int j = 0; j < n; j++) {
            memcpy(&y, b[j] + l, sizeof y);
            for (int i = 0; i < m; i++) {
                memcpy(&x, p->a + i * p->a_row + l, sizeof x);
                sum[i][j] += x * y;
            }
        }
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            float total = sum_of(&sum[i][j]);
            for (int64_t l = even; l < p->k; l++) total += p->a[i * p->a_row + l] * b[j][l];
            c[j][i * p->c_row] = total;
        }
}

INLINE void
rows(const struct few *p, int m, int64_t lo, int64_t hi)
{
    int64_t each = (hi - lo) / STREAMS;
    const float *b[STREAMS];
    float *c[STREAMS];
    for (int64_t j = lo; j < lo + each; j++) {
        for (int s = 0; s < STREAMS; s++) {
            b[s] = p->b + (j + s * each) * p->b_col;
            c[s] = p->c + (j + s * each) * p->c_col;
        }
        columns(p, m, STREAMS, b, c);
    }
    for (int64_t j = lo + STREAMS * each; j < hi; j++) {
        b[0] = p->b + j * p->b_col;
        c[0] = p->c + j * p->c_col;
        columns(p, m, 1, b, c);
    }
}

VECTOR static void
by_rows(const struct few *p, int64_t lo, int64_t hi)
{
    switch (p->m) {
    case 1: rows(p, 1, lo, hi); break;
    case 2: rows(p, 2, lo, hi); break;
    case 3: rows(p, 3, lo, hi); break;
    default: rows(p, GEMM_FEW, lo, hi);
    }
}

void
gemm_few(const struct few *p, int64_t lo, int64_t hi)
{
    by_rows(p, lo, hi);
}
