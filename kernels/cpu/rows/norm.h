/* norm.h - normalisation of rows to variance 1 and, optionally, mean 0, forward and backward.
 *
 * A tensor is `rows` dense rows of n elements. f32, bf16 and f16 are computed in f32. Sums along a row and over
 * rows are accumulated in f32 within a block, and in f64 over blocks. If x is f64, all operands are f64 and all
 * arithmetic is f64. Any thread: calls keep no state, and the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_NORM_H
#define RILLE_KERNELS_CPU_NORM_H

#include "runtime/tensor/view.h"

struct norm {
    int64_t rows, n;
    bool center; /* true: the mean is subtracted (layer_norm); false: the mean is ignored (rms_norm) */
    double eps;
    int threads;
};

/* Computes y = (x - mean) rstd weight + bias, where rstd is 1 / sqrt(variance + eps). weight and bias have n
 * elements each, or dtype DT_NONE if they are absent. */
void norm_forward(const struct norm *s, const struct view *x, const struct view *weight, const struct view *bias,
                  const struct view *y);
/* Computes the three outputs to[]:
 *
 *   dx = rstd (u - mean(u) - xhat mean(u xhat)), where u = dy weight and xhat = (x - mean) rstd
 *   dw = sum over rows of dy xhat, n elements
 *   db = sum over rows of dy, n elements
 *
 * scratch has norm_scratch() bytes. */
void norm_backward(const struct norm *s, const struct view *x, const struct view *dy, const struct view *weight,
                   const struct view to[3], void *scratch);
size_t norm_scratch(const struct norm *s);

#endif
