/* gemm_halves.h - computes products of 16-bit floats (halves) as products of f32, block by block.
 *
 * A worker converts blocks of both operands to f32 in memory of its own, which stays in its cache, and so does the
 * product; the result is rounded once. This file computes products of the dtypes that oneDNN does not multiply faster
 * than floats (prim_multiplies): f16, and bf16 on most Intel processors. The blocks, and so the bits, are the same for
 * any number of threads. Any thread; the state that prepare() makes is for one run at a time. */
#ifndef RILLE_KERNELS_CPU_GEMM_HALVES_H
#define RILLE_KERNELS_CPU_GEMM_HALVES_H

#include "runtime/graph/op.h"

bool gemm_halves_accepts(const struct kcall *k); /* kernel variant of the operators matmul and contract */
int gemm_halves_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int gemm_halves_run(const struct kcall *k, const void *state);
void gemm_halves_drop(void *state);

#endif
