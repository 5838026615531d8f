/* gemm_own.h - kernel variants of products by our own loops. An exec owns the state; one thread at a time runs the
 * exec. */
#ifndef RILLE_KERNELS_CPU_GEMM_GEMM_OWN_H
#define RILLE_KERNELS_CPU_GEMM_GEMM_OWN_H

#include <stdbool.h>
#include <stddef.h>

struct kcall;

/* Variant of matmul and contract for a few rows of f32 or bf16, with our own loops. */
bool gemm_few_accepts(const struct kcall *k);
int gemm_few_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int gemm_few_run(const struct kcall *k, const void *state);
/* Variant of matmul and contract for small f32 matrices with a row-major second operand, with our own
 * loops. */
bool gemm_small_accepts(const struct kcall *k);
int gemm_small_run(const struct kcall *k, const void *state);
/* Variant of matmul and contract for doubles, with our own loops. */
bool gemm_f64_accepts(const struct kcall *k);
int gemm_f64_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int gemm_f64_run(const struct kcall *k, const void *state);

#endif
