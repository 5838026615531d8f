/* bf16_pairs.h - prepares rows of bf16 for products of pairs (gemm_small.h), and rounds the products' results.
 *
 * Strides are in elements of the array: a bf16, a word of two bf16, or a float. Incomplete pairs are padded with
 * zero. Subnormal numbers count as zero. Any thread: calls keep no state, and the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_BF16_PAIRS_H
#define RILLE_KERNELS_CPU_BF16_PAIRS_H

#include "kernels/cpu/gemm/gemm_small.h"

struct pairs {
    /* Joins pairs of rows: sets to[i][j] = {x[2 i][j], x[2 i + 1][j]} for n rows of `size` bf16. pitch: words per
     * row of `to`, a multiple of SMALL_COLS and at least size. */
    void (*join)(int64_t n, int64_t size, const uint16_t *x, int64_t row, uint32_t *to, int64_t pitch);
    /* exps, times and grads process tiles of scores: n dense rows (n even) of `width` floats, a multiple of
     * SMALL_COLS. shift, factor and sum have one entry per column. `rounded` receives the results as rows of bf16;
     * `joined` receives them as pairs of rows joined into words. NULL: not needed. */
    /* Sets x = exp(scale x - shift), and `sum` to the sum per column. The exponentials are stored in `joined`; if
     * `joined` is NULL, in place of x. Relative error at most 2^-16. */
    void (*exps)(int64_t n, int64_t width, float scale, float *x, const float *shift, uint32_t *joined, float *sum);
    /* Computes the product factor * x. */
    void (*times)(int64_t n, int64_t width, const float *x, const float *factor, uint16_t *rounded);
    /* computes factor * x * (y - shift) */
    void (*grads)(int64_t n, int64_t width, const float *factor, const float *x, const float *shift, const float *y,
                  uint16_t *rounded, uint32_t *joined);
    /* Multiplies n rows of `size` floats by their factors (NULL: 1), and rounds them to bf16. */
    void (*store)(int64_t n, int64_t size, const float *x, int64_t pitch, const float *factor, uint16_t *to,
                  int64_t row);
    /* Sets dot[i] to the dot product of row i of x and row i of y, for n rows of `words` words. */
    void (*dots)(int64_t n, int64_t words, const uint32_t *x, int64_t x_row, const uint32_t *y, int64_t y_row,
                 float *dot);
};
/* Returns the functions for this machine; NULL if the machine has no products of pairs (gemm_pairs() then also
 * returns NULL). */
const struct pairs *bf16_pairs_here(void);

#endif
