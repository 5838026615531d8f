/* half.h - inline conversions of half precision without branches, for loops over many elements.
 *
 * bf16 is the upper half of f32: 1 sign, 8 exponent, 7 fraction bits. f16: 1 sign, 5 exponent (bias 15), 10 fraction
 * bits. Conversions round to nearest, ties to even; NaN stays NaN. runtime/tensor/type.h has the same conversions as
 * functions. Pure; any thread. */
#ifndef RILLE_RUNTIME_HALF_H
#define RILLE_RUNTIME_HALF_H

#include "runtime/base/simd.h"
#include "runtime/tensor/type.h"

#include <math.h>
#ifdef X86_LEVELS
#include <immintrin.h>
#endif

/* Convert n contiguous halves of dtype d to f32 and back (runtime/tensor/half.c). */
void half_widen(enum dtype d, float *to, const void *from, int64_t n);
void half_round(enum dtype d, void *to, const float *from, int64_t n);

INLINE float
from_bf16(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

/* Rounds the bits u of a float, or of a vector of floats, to bf16. nan: a mask, with all bits set if the float is
 * NaN, else 0. */
#define BF16_OF(u, nan) (((((u) + 0x7fff + ((u) >> 16 & 1)) >> 16) & ~(nan)) | (((u) >> 16 | 0x40) & (nan)))

INLINE uint16_t
to_bf16(float f)
{
    uint32_t u = bits_of(f), nan = -(uint32_t)(f != f);
    return (uint16_t)BF16_OF(u, nan);
}

#ifdef X86_LEVELS
/* Rounds sixteen floats to bf16. Requires machine_rounds_bf16(). The instruction flushes subnormals to zero. So
 * the bits of a subnormal are first put into the fraction of a number near 2, which the instruction rounds at the
 * same bit. */
X86_V4_BF16 INLINE __m256i
to_bf16_sixteen(__m512 f)
{
    __m512i u = _mm512_castps_si512(f);
    __mmask16 small = _mm512_testn_epi32_mask(u, _mm512_set1_epi32(0x7f800000));
    u = _mm512_mask_or_epi32(u, small, u, _mm512_set1_epi32(0x40000000));
    __m256i h = (__m256i)_mm512_cvtneps_pbh(_mm512_castsi512_ps(u));
    return _mm256_mask_sub_epi16(h, small, h, _mm256_set1_epi16(0x4000));
}
#endif

/* Converts f16 to f32. First shifts the exponent and fraction bits to their places in a float; that float is too
 * small by a factor of 2^112. Computes a subnormal as a difference of two normal floats, because the processor may
 * flush subnormals to zero (denormal.h). */
INLINE float
from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
    uint32_t small = bits_of(float_of(rest | 113u << 23) - 0x1p-14f);
    uint32_t finite = rest < 1u << 23 ? small : rest + (112u << 23), special = rest | 0x7f800000;
    return float_of(sign | (rest >= 31u << 23 ? special : finite));
}

INLINE uint16_t
to_f16(float f)
{
    uint32_t u = bits_of(f), sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    uint32_t tiny = bits_of(float_of(u) + 0.5f) - bits_of(0.5f);
    uint32_t normal = (u + 0xfff + (u >> 13 & 1) - (112u << 23)) >> 13;
    uint32_t finite = u < 0x38800000 ? tiny : normal;
    uint32_t special = u > 0x7f800000 ? 0x7e00 | (u >> 13 & 0x3ff) : 0x7c00;
    return (uint16_t)(sign | (u >= 0x477ff000 ? special : finite));
}

/* Rounds a double to odd: truncates, and sets the last bit if the result is inexact. Rounding the result to half
 * precision then equals rounding the double once. */
INLINE float
odd_of(double d)
{
    float f = (float)d;
    uint32_t u = bits_of(f);
    u -= fabs((double)f) > fabs(d);
    return float_of(u | ((double)f != d));
}

/* Rounds an integer to odd: keeps its first 24 binary digits, and sets the last of these 24 if any lower digit is
 * set. */
INLINE float
odd_of_integer(int64_t i)
{
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    int less = u >> 24 ? 40 - __builtin_clzll(u) : 0;
    uint64_t first = u >> less;
    float f = (float)(int32_t)(first | (first << less != u)) * float_of((uint32_t)(127 + less) << 23);
    return i < 0 ? -f : f;
}

#endif
