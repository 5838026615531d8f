/* gemm_f64.h - products of matrices of doubles, for which oneDNN has nothing. Any thread: calls keep nothing, and all
 * memory is the caller's. */
#ifndef RILLE_KERNELS_CPU_GEMM_F64_H
#define RILLE_KERNELS_CPU_GEMM_F64_H

#include "runtime/base.h"

/* Element (i, j) is at data[i * row + j * col]. */
struct matrix_f64 {
    double *data;
    int64_t row, col;
};

/* Bytes of scratch for one thread. */
size_t gemm_f64_scratch(int64_t m, int64_t n, int64_t k);
/* c[m,n] = a[m,k] b[k,n], or c += with add; c row by row (col 1). Sums over k in order. */
void gemm_f64(int64_t m, int64_t n, int64_t k, struct matrix_f64 a, struct matrix_f64 b, bool add, struct matrix_f64 c,
              void *scratch);

#endif
