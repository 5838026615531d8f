/* gemm_transposed.h - f32 products of few rows by a column-major matrix, computed by oneDNN as the product of the
 * transposes.
 *
 * An exec owns the state; one thread at a time runs the exec. */
#ifndef RILLE_KERNELS_CPU_GEMM_TRANSPOSED_H
#define RILLE_KERNELS_CPU_GEMM_TRANSPOSED_H

#include "runtime/graph/op.h"

/* Sizes of the product c[m,n] = a[m,k] b[k,n], and strides in floats. The columns of b, the rows of c, and either
 * the rows or the columns of a must be contiguous. */
struct gemm_transposed_sizes {
    int64_t m, n, k, a_row, a_col, b_col, c_row;
};

/* Returns true if the product of the transposes is faster than oneDNN's product of a and b in their own layouts. */
bool gemm_transposed_pays(const struct gemm_transposed_sizes *t);
/* Prepares the product for a kernel variant, in *state. Fails with E_KERNEL if oneDNN does. */
int gemm_transposed_make(const struct gemm_transposed_sizes *t, int threads, void **state, size_t *scratch_bytes);
/* Run and drop a variant that gemm_transposed_make() prepared. The operands of the call are a and b, its result is c.
 */
int gemm_transposed_run(const struct kcall *k, const void *state);
void gemm_transposed_drop(void *state);

#endif
