/* norm.h - normalisation of rows to variance 1 and, optionally, mean 0, forward and backward.
 *
 * A tensor is `rows` dense rows of n elements. For f32, bf16 and f16 the loops compute in f32, and sums of a row and
 * over rows add blocks in double. If x is f64, all operands are f64 and all arithmetic is double. Any thread: calls
 * keep no state, and the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_NORM_H
#define RILLE_KERNELS_CPU_NORM_H

#include "runtime/tensor/view.h"

struct norm {
    int64_t rows, n;
    bool center; /* true: the mean is subtracted (layer_norm); false: the mean is ignored (rms_norm) */
    double eps;
    int threads;
};

/* Computes y = (x - mean) rstd weight + bias. weight and bias have n elements each, or dtype DT_NONE if they are
 * absent. */
void norm_forward(const struct norm *s, const struct view *x, const struct view *weight, const struct view *bias,
                  const struct view *y);
/* Computes the three outputs to[]: dx = rstd (u - mean(u) - xhat mean(u xhat)), where u = dy weight and xhat = (x -
 * mean) rstd; the sums over rows of dy xhat and of dy, with n elements each. scratch: norm_scratch() bytes. */
void norm_backward(const struct norm *s, const struct view *x, const struct view *dy, const struct view *weight,
                   const struct view to[3], void *scratch);
size_t norm_scratch(const struct norm *s);

#endif
