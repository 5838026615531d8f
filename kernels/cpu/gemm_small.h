/* gemm_small.h - products of matrices that lie in the first caches: neither operand is packed beforehand.
 *
 * 48 products of 64 x 64 x 64 take 222 us of a core that computes 114 Gflop/s at most (Zen 4), which is all that it
 * can. Larger matrices, whose operands must be packed, are oneDNN's (gemm.c). Any thread: calls keep nothing, and all
 * memory is the caller's. */
#ifndef RILLE_KERNELS_CPU_GEMM_SMALL_H
#define RILLE_KERNELS_CPU_GEMM_SMALL_H

#include "runtime/base.h"

/* Columns come so many at a time. */
enum { SMALL_COLS = 16 };

/* Element (i, j) is word i * row + j * col of data: a float, or a pair. */
struct small_operand {
    const void *data;
    int64_t row, col;
};

/* c[m,n] = a[m,k] b[k,n], or c += with add; c is of floats. n is a multiple of SMALL_COLS; a has a stride of 1, by row
 * or by column; b and c lie row by row. Each element is a sum over k in order, whatever m and n are. */
typedef void small_product(int64_t m, int64_t n, int64_t k, struct small_operand a, const void *b, int64_t b_row,
                           bool add, float *c, int64_t c_row);
small_product gemm_small; /* of floats */

/* Of pairs of bf16 that follow each other along k, the first one in the lower half of a word: a row of a as it lies,
 * two rows of b as one. NULL where the machine does not multiply them faster than floats. */
small_product *gemm_pairs(void);

#endif
