/* attention_few.h - attention of a few queries. An exec owns the state of a variant; one thread at a time runs the
 * exec. */
#ifndef RILLE_KERNELS_CPU_ATTENTION_ATTENTION_FEW_H
#define RILLE_KERNELS_CPU_ATTENTION_ATTENTION_FEW_H

#include <stdbool.h>
#include <stddef.h>

struct kcall;

/* Variant of attention for at most GEMM_FEW queries per head. */
bool attention_few_accepts(const struct kcall *k);
int attention_few_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int attention_few_run(const struct kcall *k, const void *state);
void attention_few_drop(void *state);

#endif
