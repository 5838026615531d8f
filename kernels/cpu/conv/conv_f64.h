/* conv_f64.h - convolutions of doubles and their gradients, which oneDNN does not support: variants of conv2d,
 * conv2d_grad_x and conv2d_grad_w.
 *
 * Any thread: calls keep no state, and the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_CONV_F64_H
#define RILLE_KERNELS_CPU_CONV_F64_H

#include "runtime/graph/op.h"

bool conv_f64_accepts(const struct kcall *k);
int conv_f64_prepare(const struct kcall *k, void **state, size_t *scratch_bytes); /* conv2d: computes y from x and w */
int conv_f64_run(const struct kcall *k, const void *state);
/* conv2d_grad_x: computes the gradient of x from w and the gradient of y. */
int conv_x_f64_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int conv_x_f64_run(const struct kcall *k, const void *state);
/* conv2d_grad_w: computes the gradient of w from x and the gradient of y. */
int conv_w_f64_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int conv_w_f64_run(const struct kcall *k, const void *state);

#endif
