/* gemm_small.h - products of matrices that fit into the inner caches, without packing the operands.
 *
 * 48 products of 64 x 64 x 64 take 222 us on a Zen 4 core, which equals the peak of the core, 114 Gflop/s. oneDNN
 * computes larger matrices, whose operands must be packed (gemm.c). Any thread: calls keep no state, and the
 * caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_GEMM_SMALL_H
#define RILLE_KERNELS_CPU_GEMM_SMALL_H

#include "runtime/base/base.h"

/* Number of columns of c that are computed together. */
enum { SMALL_COLS = 16 };

/* An operand of a product. Element (i, j) is data[i * row + j * col]. An element is a word: a float or a pair of
 * bf16. */
struct small_operand {
    const void *data;
    int64_t row, col;
};

/* Computes c[m,n] = a[m,k] b[k,n]. add: adds the product to c. c is f32. n is a multiple of SMALL_COLS. Either the
 * rows or the columns of a have stride 1; b and c are row-major. Each element of c is a sum over k in order,
 * whatever m and n are. */
typedef void small_product(int64_t m, int64_t n, int64_t k, struct small_operand a, const void *b, int64_t b_row,
                           bool add, float *c, int64_t c_row);
small_product gemm_small; /* computes products of floats */

/* Returns the product of bf16 pairs; NULL: this machine does not multiply pairs faster than floats. The two
 * elements of a pair are consecutive along k, and the first is in the lower half of a word. So rows of a are used
 * as stored, and each two rows of b must be interleaved into one row of words. */
small_product *gemm_pairs(void);

#endif
