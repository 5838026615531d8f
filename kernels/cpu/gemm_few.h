/* gemm_few.h - products of a few rows by a matrix whose columns lie one after the other: what a model that writes an id
 * at a time is made of. Their limit is the reading of that matrix. Any thread: nothing is kept from one call to the
 * next. */
#ifndef RILLE_KERNELS_CPU_GEMM_FEW_H
#define RILLE_KERNELS_CPU_GEMM_FEW_H

#include "runtime/base.h"

enum { GEMM_FEW = 4 }; /* rows at most */

/* c[i,j] = sum over l of a[i,l] b[l,j], i < m <= GEMM_FEW, l < k. Steps in elements. */
struct few {
    int64_t m, k;
    const float *a, *b;
    float *c;
    int64_t a_row, b_col, c_row, c_col;
};

/* Columns lo <= j < hi. A column is the same bits whatever is computed beside it. */
void gemm_few(const struct few *p, int64_t lo, int64_t hi);

#endif
