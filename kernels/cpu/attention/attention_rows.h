/* attention_rows.h - attention of f64 and its gradient. An exec owns the state; one thread at a time runs the exec. */
#ifndef RILLE_KERNELS_CPU_ATTENTION_ATTENTION_ROWS_H
#define RILLE_KERNELS_CPU_ATTENTION_ATTENTION_ROWS_H

#include <stdbool.h>
#include <stddef.h>

struct kcall;

/* Variants of attention and attention_grad for f64; operands are dense. */
bool attention_rows_accepts(const struct kcall *k);
int attention_rows_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int attention_rows_grad_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int attention_rows_run(const struct kcall *k, const void *state);
void attention_rows_drop(void *state);

#endif
