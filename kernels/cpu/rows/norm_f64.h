/* norm_f64.h - the functions of norm.h for rows of doubles; all operands are f64.
 *
 * Any thread: calls keep no state, and the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_NORM_F64_H
#define RILLE_KERNELS_CPU_NORM_F64_H

#include "kernels/cpu/rows/norm.h"

/* Computes y as norm_forward() does (norm.h). weight, bias: NULL if absent. */
void norm_f64_forward(const struct norm *s, const double *x, const double *weight, const double *bias, double *y);
void norm_f64_backward(const struct norm *s, const double *x, const double *dy, const double *weight, double *dx);
/* Computes dw and db, the sums over rows of dy xhat and of dy (norm.h). scratch: norm_f64_scratch() bytes. */
void norm_f64_weights(const struct norm *s, const double *x, const double *dy, double *dw, double *db, void *scratch);
size_t norm_f64_scratch(const struct norm *s);

#endif
