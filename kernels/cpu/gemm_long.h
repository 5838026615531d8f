/* gemm_long.h - products whose result is small and whose sums are long (GEMM_LONG, gemm.h), of f32 or rounded to it.
 *
 * oneDNN's threads would share k, so that bits depended on how many there are. Here parts of k are products of one
 * thread, which are added up in f64, in groups that depend on sizes alone. Any thread; the state that prepare() makes
 * is for one run at a time. */
#ifndef RILLE_KERNELS_CPU_GEMM_LONG_H
#define RILLE_KERNELS_CPU_GEMM_LONG_H

#include "runtime/op.h"

bool gemm_long_accepts(const struct kcall *k); /* matmul */
int gemm_long_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int gemm_long_run(const struct kcall *k, const void *state);
bool contract_long_accepts(const struct kcall *k); /* contract */
int contract_long_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int contract_long_run(const struct kcall *k, const void *state);
void gemm_long_drop(void *state);

#endif
