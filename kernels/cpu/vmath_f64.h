/* vmath_f64.h - elementary functions of doubles, eight at a time: block_f64 of the element-wise operators, whose
 * operands and attributes they take.
 *
 * The elementary ones are the C library's for vectors (libmvec) where it has them: within 4 units of the last place, 3
 * as measured, and right at infinities, NaN and zeros; without a difference between an element in the middle of a block
 * and one at its end. One build may give other bits on another level of machine. Any thread: calls keep nothing, and
 * all memory is the caller's. */
#ifndef RILLE_KERNELS_CPU_VMATH_F64_H
#define RILLE_KERNELS_CPU_VMATH_F64_H

#include "runtime/op.h"

typedef void block_f64(const struct call *c, int64_t n, const double *const *x, double *y);

block_f64 f64_exp, f64_log, f64_tanh, f64_sigmoid, f64_silu, f64_silu_derivative, f64_softplus, f64_erf, f64_sin,
    f64_cos;
block_f64 f64_gelu, f64_gelu_derivative; /* attribute 0: 0 exact, 1 with tanh */
block_f64 f64_pow, f64_pow_derivative;   /* attribute 0 of the derivative: its order */
/* The same of floats, for f32_by_f64: right to 2^-37, the same bits on every level of machine. */
block_f64 f64_pow_few, f64_pow_derivative_few;
block_f64 f64_floor, f64_ceil, f64_round;

void vec_exp_f64(int64_t n, const double *x, double *y); /* y may be x */

/* Computes a function of floats as one of doubles, and rounds once. */
void f32_by_f64(block_f64 *f, const struct call *c, int64_t n, int narg, const float *const *x, float *y);

#endif
