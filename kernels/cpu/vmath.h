/* vmath.h - elementary functions on blocks of f32, vectorised. y may be x. Errors in units of the last place, measured
 * against libm in f64 by t/op-kernel.c. Infinities, NaN, zeros and subnormal results as libm. */
#ifndef RILLE_KERNELS_CPU_VMATH_H
#define RILLE_KERNELS_CPU_VMATH_H

#include <stdint.h>

void vec_exp(int64_t n, const float *x, float *y);

#endif
