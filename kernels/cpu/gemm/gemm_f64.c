/* gemm_f64.c - matrix products of doubles, after Goto & van de Geijn (2008).
 *
 * Blocks of a and b are packed into the order in which the innermost loop reads them: strips of MR rows of a, and
 * strips of NR columns of b. The product of two strips is MR x NR sums, which stay in registers over all of k. If
 * the machine has fused multiply-adds, the loops use them, as oneDNN does, and take half the time. */
#pragma GCC optimize("O3", "no-trapping-math", "fp-contract=fast")
#include "kernels/cpu/gemm/gemm_f64.h"

#include "kernels/cpu/base/lanes.h"

#include <string.h>

enum { MR = 4, NR = 16, KC = 256, MC = 64, NC = 512 };

#define LANES_FILE "kernels/cpu/gemm/gemm_f64_level.inc"
#include "kernels/cpu/base/lanes_levels.inc"

/* Packs `size` lines of x (rows of a or columns of b) as strips of `width` lines. Fills the last strip with lines
 * of zeros. line: distance between lines; step: distance between the k elements of a line; both in elements. */
static void
f64_pack(int64_t size, int64_t k, const double *x, int64_t line, int64_t step, int64_t width, double *to)
{
    for (int64_t s = 0; s < size; s += width, to += width * k) {
        int64_t n = MIN(size - s, width);
        if (n < width) memset(to, 0, (size_t)(width * k) * sizeof *to);
        for (int64_t p = 0; p < k; p++)
            for (int64_t i = 0; i < n; i++) to[p * width + i] = x[(s + i) * line + p * step];
    }
}

/* Computes a block of c from packed blocks of a and b. */
static void
f64_block(int64_t m, int64_t n, int64_t k, const double *a, const double *b, bool add, double *c, int64_t row)
{
    _Alignas(64) double sum[MR * NR];
    for (int64_t j = 0; j < n; j += NR)
        for (int64_t i = 0; i < m; i += MR) {
            OF_LEVEL(strips)(k, a + i * k, b + j * k, sum);
            for (int64_t r = 0; r < MIN(m - i, MR); r++) {
                double *to = c + (i + r) * row + j;
                for (int64_t s = 0; s < MIN(n - j, NR); s++) to[s] = sum[r * NR + s] + (add ? to[s] : 0);
            }
        }
}

static int64_t
round_up_f64(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

size_t
gemm_f64_scratch(int64_t m, int64_t n, int64_t k)
{
    int64_t depth = MIN(k, KC);
    return (size_t)(round_up_f64(MIN(m, MC), MR) + round_up_f64(MIN(n, NC), NR)) * (size_t)depth * sizeof(double) + 64;
}

void
gemm_f64(int64_t m, int64_t n, int64_t k, struct matrix_f64 a, struct matrix_f64 b, bool add, struct matrix_f64 c,
         void *scratch)
{
    double *packed_b = scratch, *packed_a = packed_b + round_up_f64(MIN(n, NC), NR) * MIN(k, KC);
    for (int64_t j = 0; j < n; j += NC)
        for (int64_t p = 0; p < k; p += KC) {
            int64_t width = MIN(n - j, NC), depth = MIN(k - p, KC);
            f64_pack(width, depth, b.data + p * b.row + j * b.col, b.col, b.row, NR, packed_b);
            for (int64_t i = 0; i < m; i += MC) {
                int64_t height = MIN(m - i, MC);
                f64_pack(height, depth, a.data + i * a.row + p * a.col, a.row, a.col, MR, packed_a);
                f64_block(height, width, depth, packed_a, packed_b, add || p > 0, c.data + i * c.row + j, c.row);
            }
        }
}
