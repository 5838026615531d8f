/* vmath.h - elementary functions on blocks of f32, vectorised. y may be x.
 *
 * Comments give the largest error, in units in the last place, compared with libm in f64 (t/kernels/vmath.c checks
 * this). Infinities, NaN, signed zeros and subnormal results are as from libm. Any thread: calls keep no state, and
 * the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_VMATH_H
#define RILLE_KERNELS_CPU_VMATH_H

#include <stdint.h>

void vec_exp(int64_t n, const float *x, float *y);      /* error 1.1 units in the last place */
void vec_log(int64_t n, const float *x, float *y);      /* error 0.9 units in the last place */
void vec_tanh(int64_t n, const float *x, float *y);     /* error 2.5 units in the last place */
void vec_softplus(int64_t n, const float *x, float *y); /* error 2.9 units in the last place */
void vec_sigmoid(int64_t n, const float *x, float *y);  /* error 2.1 units in the last place */
void vec_silu(int64_t n, const float *x, float *y);     /* error 3 units in the last place */
void vec_erf(int64_t n, const float *x, float *y);      /* error 2.4 units in the last place */
void vec_sin(int64_t n, const float *x, float *y); /* error 1.5 units for |x| <= 3; for other x absolute error 1e-7 */
void vec_cos(int64_t n, const float *x, float *y); /* the same error as vec_sin() */

/* Errors of gelu, x Phi(x): 4.3 units in the last place. Errors of its tanh approximation: 3 units for x >= -1.3;
 * for smaller x the formula itself loses digits, and the absolute error is 3.8e-8. Absolute errors of the
 * derivatives: 1.4e-7 for gelu, 1.3e-7 for its tanh approximation. */
void vec_gelu(int64_t n, const float *x, float *y);
void vec_gelu_tanh(int64_t n, const float *x, float *y);
void vec_gelu_derivative(int64_t n, const float *x, float *y);
void vec_gelu_tanh_derivative(int64_t n, const float *x, float *y);
/* Compute a function and its derivative, bit-identical to the separate functions. slope receives the derivative and
 * must not be x. */
void vec_gelu_both(int64_t n, const float *x, float *y, float *slope);
void vec_gelu_tanh_both(int64_t n, const float *x, float *y, float *slope);
/* vec_silu_derivative() computes the derivative of silu, vec_silu_both() silu and its derivative. The derivative's
 * absolute error is 1.3e-7; for x < -3 its error is 6 units in the last place. */
void vec_silu_derivative(int64_t n, const float *x, float *y);
void vec_silu_both(int64_t n, const float *x, float *y, float *slope);

#endif
