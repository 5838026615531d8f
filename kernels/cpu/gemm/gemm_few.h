/* gemm_few.h - products of a few rows by a matrix, which take most of the time when text is generated one token at a
 * time.
 *
 * The matrix may be weights, whose columns are contiguous, or, in attention, keys (contiguous columns) or values
 * (contiguous rows). The time of such a product is the time of reading the matrix. Any thread: calls keep no state,
 * and the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_GEMM_FEW_H
#define RILLE_KERNELS_CPU_GEMM_FEW_H

#include "runtime/base/base.h"

/* GEMM_FEW: maximum number of rows; GEMM_SHORT: columns with fewer elements are called short. */
enum { GEMM_FEW = 4, GEMM_SHORT = 256 };

/* A product c[i,j] = sum over l of a[i,l] b[l,j], i < m <= GEMM_FEW, l < k. Strides are in elements. Either b_row
 * and a_col are 1, or b_col and c_col are 1. If b is bf16, b_row must be 1, and the rows of a must be reordered by
 * gemm_few_pair(). */
struct few {
    int64_t m, k;
    const float *a;
    const void *b; /* matrix b, whose elements are floats, or bf16 if `halves` is true */
    float *c;
    bool halves, add; /* halves: b is bf16 instead of float; add: the product is added to c */
    int64_t a_row, a_col, b_row, b_col, c_row, c_col;
};

/* Reorders a row of a, of k floats, for a product with a bf16 b: within each group of FEW_PAIRED numbers, those at
 * even indices come first. */
enum { FEW_PAIRED = 32 };
void gemm_few_pair(int64_t k, float *a);

/* Computes columns lo <= j < hi of c. A column has the same bits whichever columns are computed with it. */
void gemm_few(const struct few *p, int64_t lo, int64_t hi);

/* Computes turns lo <= t < hi of the columns `of`. b_row must be 1, and columns must not be short. The columns are
 * divided into FEW_STREAMS streams of equal length. Turn t computes the t-th column of each stream; the last turn
 * computes the columns that remain. A thread that computes turns in order reads each stream sequentially. */
enum { FEW_STREAMS = 4 };
struct few_columns {
    int64_t first, end;
};
int64_t few_turns(struct few_columns of); /* returns the number of turns */
void gemm_few_turns(const struct few *p, struct few_columns of, int64_t lo, int64_t hi);

#endif
