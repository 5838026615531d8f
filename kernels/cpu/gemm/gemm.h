/* gemm.h - kernel variants of matmul and contract, by oneDNN and by our own loops. An exec owns the state of a
 * variant; one thread at a time runs it. */
#ifndef RILLE_KERNELS_CPU_GEMM_GEMM_H
#define RILLE_KERNELS_CPU_GEMM_GEMM_H

#include "runtime/graph/op.h"

/* Limits on the work of a product between two checks whether the run was stopped. A product of more than `flops`
 * operations per thread (for 16-bit floats twice that) is computed in panels of its result and in parts of k.
 * Each panel or part has about `flops` operations, at most 1.5 times that. The sides of a panel are multiples of
 * `step` and at least `side` (for 16-bit floats a quarter of `side`). A batch is split into parts with about as
 * many operations. Tests lower the limits. */
extern struct gemm_panel {
    double flops;
    int64_t side, step;
} gemm_panel;

bool gemm_accepts(const struct kcall *k); /* variants of matmul and contract */
bool gemm_takes(const struct kcall *k, int i);
int gemm_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
/* Variant of matmul for few rows by a column-major matrix: computes the product of the transposes
 * (cpu/gemm/gemm_transposed.h). */
bool gemm_transposed_accepts(const struct kcall *k);
int gemm_transposed_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
/* A single-threaded product c[m,n] = a[m,k] b[k,n] of dense matrices, which prim_at() runs. a and b have one dtype;
 * c is f32. a_columns, b_columns: true if a (b) is column-major. add: true: the product is added to c. */
struct dense_product {
    enum dtype dtype;
    int64_t m, n, k;
    bool a_columns, b_columns, add;
};
int gemm_dense(const struct dense_product *p, void **product, size_t *scratch_bytes);

#endif
