/* gemm_few.h - products of a few rows by a matrix, which are most of a model that writes an id at a time: by weights,
 * whose columns lie one after the other, and in attention by keys and by values, whose rows do. Reading that matrix is
 * their limit. Any thread: calls keep nothing, and all memory is the caller's. */
#ifndef RILLE_KERNELS_CPU_GEMM_FEW_H
#define RILLE_KERNELS_CPU_GEMM_FEW_H

#include "runtime/base.h"

enum { GEMM_FEW = 4, GEMM_SHORT = 256 }; /* rows at most; columns of fewer numbers are short */

/* c[i,j] = sum over l of a[i,l] b[l,j], i < m <= GEMM_FEW, l < k. Steps in elements; one of b's is 1. If it is that
 * between rows, b_row, so is a_col; else c_col is. b of bf16 has a b_row of 1, and rows of a are in the order of
 * gemm_few_pair(). */
struct few {
    int64_t m, k;
    const float *a;
    const void *b; /* floats, or bf16 */
    float *c;
    bool halves, add; /* add: to what c holds */
    int64_t a_row, a_col, b_row, b_col, c_row, c_col;
};

/* Orders a row of a for b of bf16: of each FEW_PAIRED numbers those at even places first. */
enum { FEW_PAIRED = 32 };
void gemm_few_pair(int64_t k, float *a);

/* Computes columns lo <= j < hi. A column has the same bits whatever is beside it. */
void gemm_few(const struct few *p, int64_t lo, int64_t hi);

/* The same turn by turn, where b_row is 1 and columns are not short: columns are read as FEW_STREAMS streams of as many
 * each, one after the other. Turn t has the t-th column of each stream, and the last turn what is left. Whoever takes
 * turns in their order reads on in each stream. */
enum { FEW_STREAMS = 4 };
struct few_columns {
    int64_t first, end;
};
int64_t few_turns(struct few_columns of); /* how many */
void gemm_few_turns(const struct few *p, struct few_columns of, int64_t lo, int64_t hi);

#endif
