/* vmath_f64.h - elementary functions of doubles, eight at a time. Each is the function block_f64 of an element-wise
 * operator, and has the operator's operands and attributes.
 *
 * Elementary functions use the C library's vector functions (libmvec) if available. Their error is at most 4 units
 * in the last place (3 as measured); infinities, NaN and zeros are handled correctly. The position of an element in
 * a block does not change its result. One build may give other bits on another machine level. Any thread: calls keep
 * no state, and the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_VMATH_F64_H
#define RILLE_KERNELS_CPU_VMATH_F64_H

#include "runtime/graph/op.h"

typedef void block_f64(const struct call *c, int64_t n, const double *const *x, double *y);

block_f64 f64_exp, f64_log, f64_tanh, f64_sigmoid, f64_silu, f64_silu_derivative, f64_softplus, f64_erf, f64_sin,
    f64_cos;
/* Two versions of gelu: attribute 0 of the call is 0 for exact gelu, 1 for its tanh approximation. */
block_f64 f64_gelu, f64_gelu_derivative;
block_f64 f64_pow, f64_pow_derivative; /* attribute 0 of f64_pow_derivative: order of the derivative */
/* Compute powers of floats for f32_by_f64(): accurate to 2^-37, and bit-identical on every machine level. */
block_f64 f64_pow_few, f64_pow_derivative_few;
block_f64 f64_floor, f64_ceil, f64_round;

void vec_exp_f64(int64_t n, const double *x, double *y); /* y may be x */

/* Computes a function of floats by f, the same function of doubles. Results are rounded to floats once. */
void f32_by_f64(block_f64 *f, const struct call *c, int64_t n, int narg, const float *const *x, float *y);

#endif
