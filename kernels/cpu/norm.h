/* norm.h - normalisation of rows to mean 0 (or as it is) and variance 1, forward and backward.
 *
 * A tensor is `rows` dense rows of n elements. For f32, bf16 and f16 the loops compute in f32; sums of a row, and over
 * rows, add blocks in double. Where x is of f64, all operands are, and all is double. Any thread: calls keep nothing,
 * and all memory is the caller's. */
#ifndef RILLE_KERNELS_CPU_NORM_H
#define RILLE_KERNELS_CPU_NORM_H

#include "runtime/view.h"

struct norm {
    int64_t rows, n;
    bool center; /* layer_norm takes the mean off, rms_norm does not */
    double eps;
    int threads;
};

/* y = (x - mean) rstd weight + bias; weight, bias: n elements, dtype DT_NONE where absent. */
void norm_forward(const struct norm *s, const struct view *x, const struct view *weight, const struct view *bias,
                  const struct view *y);
/* to: dx = rstd (u - mean(u) - xhat mean(u xhat)), u = dy weight, xhat = (x - mean) rstd; and, n elements each, the
 * sums over rows of dy xhat and of dy. scratch: norm_scratch() bytes. */
void norm_backward(const struct norm *s, const struct view *x, const struct view *dy, const struct view *weight,
                   const struct view to[3], void *scratch);
size_t norm_scratch(const struct norm *s);

#endif
