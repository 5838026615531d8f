/* gemm_long.h - f32 products with a small result and long sums (GEMM_LONG, gemm.h). Operands may be 16-bit
 * floats.
 *
 * oneDNN would split k over its threads, and the bits would depend on the number of threads. gemm_long.c computes
 * each part of k as a single-threaded product. The products of the parts are added up in f64, in groups that
 * depend on the sizes alone. Any thread; the state that prepare() makes is for one run at a time. */
#ifndef RILLE_KERNELS_CPU_GEMM_LONG_H
#define RILLE_KERNELS_CPU_GEMM_LONG_H

#include "runtime/graph/op.h"

bool gemm_long_accepts(const struct kcall *k); /* kernel variant of the operators matmul and contract */
int gemm_long_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int gemm_long_run(const struct kcall *k, const void *state);
void gemm_long_drop(void *state);

#endif
