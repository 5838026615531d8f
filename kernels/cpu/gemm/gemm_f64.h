/* gemm_f64.h - matrix products of doubles, which oneDNN does not support. Any thread: calls keep no state, and the
 * caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_GEMM_F64_H
#define RILLE_KERNELS_CPU_GEMM_F64_H

#include "runtime/base/base.h"

/* A matrix: element (i, j) is data[i * row + j * col]. */
struct matrix_f64 {
    double *data;
    int64_t row, col;
};

/* Returns the size of one thread's scratch for gemm_f64(), bytes. */
size_t gemm_f64_scratch(int64_t m, int64_t n, int64_t k);
/* Computes c[m,n] = a[m,k] b[k,n]. add: adds the product to c. c is row-major (col 1). Each sum is added up in the
 * order of k. */
void gemm_f64(int64_t m, int64_t n, int64_t k, struct matrix_f64 a, struct matrix_f64 b, bool add, struct matrix_f64 c,
              void *scratch);

#endif
