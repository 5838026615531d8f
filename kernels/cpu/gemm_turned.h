/* gemm_turned.h - rows, not many, by a matrix that lies column by column: the product of the transposes, on oneDNN's
 * matmul. The state belongs to an exec; a thread at a time runs it. f32. */
#ifndef RILLE_KERNELS_CPU_GEMM_TURNED_H
#define RILLE_KERNELS_CPU_GEMM_TURNED_H

#include "runtime/op.h"

/* c[m,n] = a[m,k] b[k,n]; strides in floats. A column of b is dense, a row of c, and of a a row or a column. */
struct turned_sizes {
    int64_t m, n, k, a_row, a_col, b_col, c_row;
};

/* Is it faster than oneDNN's product of a and b as they lie? */
bool gemm_turned_pays(const struct turned_sizes *t);
/* A variant's prepare; E_KERNEL. */
int gemm_turned_make(const struct turned_sizes *t, int threads, void **state, size_t *scratch_bytes);
/* A variant's run and drop: operands a and b, result c. */
int gemm_turned_run(const struct kcall *k, const void *state);
void gemm_turned_drop(void *state);

#endif
