/* vmath.c - elementary functions on blocks of f32. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/vmath.h"

#include "kernels/cpu/simd.h"

#include <math.h>

void
vec_exp(int64_t n, const float *x, float *y)
{
    for (int64_t i = 0; i < n; i++) y[i] = expf(x[i]);
}
