/* conv_f64.h - convolutions of doubles and their gradients: variants of conv2d, conv2d_grad_x and conv2d_grad_w,
 * which oneDNN does not support in f64. Any thread: calls keep no state, and the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_CONV_F64_H
#define RILLE_KERNELS_CPU_CONV_F64_H

#include "runtime/graph/op.h"

bool conv_f64_accepts(const struct kcall *k);
int conv_f64_prepare(const struct kcall *k, void **state, size_t *scratch_bytes); /* x * w -> y */
int conv_f64_run(const struct kcall *k, const void *state);
int conv_x_f64_prepare(const struct kcall *k, void **state, size_t *scratch_bytes); /* y * w -> x */
int conv_x_f64_run(const struct kcall *k, const void *state);
int conv_w_f64_prepare(const struct kcall *k, void **state, size_t *scratch_bytes); /* x * y -> w */
int conv_w_f64_run(const struct kcall *k, const void *state);

#endif
