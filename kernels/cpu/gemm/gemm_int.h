/* gemm_int.h - products of integers, which wrap around. An exec owns the state; one thread at a time runs the exec. */
#ifndef RILLE_KERNELS_CPU_GEMM_GEMM_INT_H
#define RILLE_KERNELS_CPU_GEMM_GEMM_INT_H

#include <stdbool.h>
#include <stddef.h>

struct kcall;

/* Variant of matmul for integers, whose sums and products wrap around. */
bool gemm_int_accepts(const struct kcall *k);
int gemm_int_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int gemm_int_run(const struct kcall *k, const void *state);

#endif
