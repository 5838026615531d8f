/* pairs.h - rows of bf16 made ready for products of pairs (gemm_small.h), and what comes of them rounded.
 *
 * Steps are in elements of their operand: halves, words of two halves, floats. What is missing to whole pairs is zero.
 * Numbers too small for full precision are zeros. Any thread: calls keep nothing, and all memory is the caller's. */
#ifndef RILLE_KERNELS_CPU_PAIRS_H
#define RILLE_KERNELS_CPU_PAIRS_H

#include "kernels/cpu/gemm_small.h"

struct pairs {
    /* to[i][j] = {x[2 i][j], x[2 i + 1][j]}, of n rows of `size` halves; rows of `pitch` words, a multiple of
     * SMALL_COLS and at least size. */
    void (*join)(int64_t n, int64_t size, const uint16_t *x, int64_t row, uint32_t *to, int64_t pitch);
    /* Of tiles of scores: an even number n of dense rows of `width` floats, whole SMALL_COLS; shift, factor and sum:
     * one of each column. Rounded to rows of halves, or to rows that are joined; NULL: not wanted. */
    /* exp(scale x - shift), joined, or where joined is NULL in the place of x; and their sum. Off by 2^-16 at most. */
    void (*exps)(int64_t n, int64_t width, float scale, float *x, const float *shift, uint32_t *joined, float *sum);
    void (*times)(int64_t n, int64_t width, const float *x, const float *factor, uint16_t *rounded); /* factor x */
    /* factor x (y - shift) */
    void (*grads)(int64_t n, int64_t width, const float *factor, const float *x, const float *shift, const float *y,
                  uint16_t *rounded, uint32_t *joined);
    /* n rows of `size` floats, each times its factor (NULL: one), rounded. */
    void (*store)(int64_t n, int64_t size, const float *x, int64_t pitch, const float *factor, uint16_t *to,
                  int64_t row);
    /* dot[i] = x[i] . y[i], of n rows of so many words. */
    void (*dots)(int64_t n, int64_t words, const uint32_t *x, int64_t x_row, const uint32_t *y, int64_t y_row,
                 float *dot);
};
const struct pairs *pairs_here(void); /* NULL where gemm_pairs() is */

#endif
