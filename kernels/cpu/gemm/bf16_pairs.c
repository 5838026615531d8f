/* bf16_pairs.c - prepares rows of bf16 for products of pairs, with AVX512_BF16 instructions. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/gemm/bf16_pairs.h"

#include "runtime/tensor/half.h"
#include "runtime/base/simd.h"

#ifdef X86_LEVELS
#include <immintrin.h>

enum { HALVES = 32, FLOATS = 16 }; /* number of 16-bit floats and of floats in a vector */

/* Returns a mask of the first n lanes. */
X86_V4_BF16 INLINE __mmask16
some(int64_t n)
{
    return n >= FLOATS ? 0xffff : (__mmask16)((1u << n) - 1);
}

/* Interleaves two vectors of 16-bit floats, element by element, into words. */
X86_V4_BF16 INLINE __m512i
joined(__m256i low, __m256i high)
{
    return _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
}

X86_V4_BF16 static void
pairs_interleave(int64_t n, int64_t size, const uint16_t *x, int64_t row, uint32_t *to, int64_t pitch)
{
    for (int64_t i = 0; i < n; i += 2, x += 2 * row, to += pitch)
        for (int64_t j = 0; j < pitch; j += FLOATS) {
            __mmask16 there = some(MAX(size - j, 0)), both = i + 1 < n ? there : 0;
            __m256i low = _mm256_maskz_loadu_epi16(there, x + j), high = _mm256_maskz_loadu_epi16(both, x + row + j);
            _mm512_storeu_si512(to + j, joined(low, high));
        }
}

X86_V4_BF16 INLINE __m256i
pairs_rounded(__m512 x)
{
    return (__m256i)_mm512_cvtneps_pbh(x);
}

/* Returns 2^x for x <= 0; 0 for x < -150; NaN for NaN. By rounding, x may be slightly positive. The relative error
 * is 2^-18, plus the effect of the rounding of x. */
X86_V4_BF16 INLINE __m512
power_of_two(__m512 x)
{
    __m512 y = _mm512_max_ps(_mm512_set1_ps(-150), x), n = _mm512_roundscale_ps(y, _MM_FROUND_TO_NEAREST_INT);
    /* Polynomial for (2^r - 1) / r on [-0.5, 0.5]. */
    __m512 r = _mm512_sub_ps(y, n), q = _mm512_set1_ps(0.00958285294f);
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0.0559064262f));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0.240240991f));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0.693124175f));
    return _mm512_scalef_ps(_mm512_fmadd_ps(q, r, _mm512_set1_ps(1)), n);
}

X86_V4_BF16 static void
pairs_exps(int64_t n, int64_t width, float scale, float *x, const float *shift, uint32_t *to, float *sum)
{
    const float to_two = 1.44269504f;
    __m512 factor = _mm512_set1_ps(scale * to_two);
    for (int64_t j = 0; j < width; j += FLOATS) {
        __m512 top = _mm512_mul_ps(_mm512_set1_ps(to_two), _mm512_loadu_ps(shift + j)), all = _mm512_setzero_ps();
        for (int64_t i = 0; i < n; i += 2) {
            float *at = x + i * width + j;
            __m512 low = power_of_two(_mm512_fmsub_ps(factor, _mm512_loadu_ps(at), top));
            __m512 high = power_of_two(_mm512_fmsub_ps(factor, _mm512_loadu_ps(at + width), top));
            all = _mm512_add_ps(all, _mm512_add_ps(low, high));
            if (to) {
                _mm512_storeu_si512(to + i / 2 * width + j, joined(pairs_rounded(low), pairs_rounded(high)));
            } else {
                _mm512_storeu_ps(at, low);
                _mm512_storeu_ps(at + width, high);
            }
        }
        _mm512_storeu_ps(sum + j, all);
    }
}

X86_V4_BF16 static void
times(int64_t n, int64_t width, const float *x, const float *factor, uint16_t *to)
{
    for (int64_t j = 0; j < width; j += FLOATS) {
        __m512 f = _mm512_loadu_ps(factor + j);
        for (int64_t i = 0; i < n; i++)
            _mm256_storeu_si256((void *)(to + i * width + j),
                                pairs_rounded(_mm512_mul_ps(f, _mm512_loadu_ps(x + i * width + j))));
    }
}

X86_V4_BF16 static void
grads(int64_t n, int64_t width, const float *factor, const float *x, const float *shift, const float *y,
      uint16_t *plain, uint32_t *to)
{
    for (int64_t j = 0; j < width; j += FLOATS) {
        __m512 f = _mm512_loadu_ps(factor + j), d = _mm512_loadu_ps(shift + j);
        for (int64_t i = 0; i < n; i += 2) {
            __m256i row[2];
            for (int k = 0; k < 2; k++) {
                int64_t at = (i + k) * width + j;
                __m512 t = _mm512_sub_ps(_mm512_loadu_ps(y + at), d);
                row[k] = pairs_rounded(_mm512_mul_ps(_mm512_mul_ps(f, _mm512_loadu_ps(x + at)), t));
                _mm256_storeu_si256((void *)(plain + at), row[k]);
            }
            _mm512_storeu_si512(to + i / 2 * width + j, joined(row[0], row[1]));
        }
    }
}

/* Multiplies rows of floats by their factors (NULL: 1) and rounds them to bf16. Always multiplies, even by 1,
 * because a product turns subnormal numbers into zeros, as devices do (runtime/base/denormal.h). The conversion
 * instruction alone would treat subnormal numbers differently. */
X86_V4_BF16 static void
pairs_store(int64_t n, int64_t size, const float *x, int64_t pitch, const float *factor, uint16_t *to, int64_t row)
{
    for (int64_t i = 0; i < n; i++, x += pitch, to += row) {
        __m512 f = _mm512_set1_ps(factor ? factor[i] : 1);
        int64_t j = 0;
        for (; j + HALVES <= size; j += HALVES) {
            __m512 low = _mm512_mul_ps(f, _mm512_loadu_ps(x + j)),
                   high = _mm512_mul_ps(f, _mm512_loadu_ps(x + j + FLOATS));
            _mm512_storeu_si512(to + j, (__m512i)_mm512_cvtne2ps_pbh(high, low));
        }
        for (; j < size; j += FLOATS) {
            __mmask16 there = some(size - j);
            __m512 y = _mm512_mul_ps(f, _mm512_maskz_loadu_ps(there, x + j));
            _mm256_mask_storeu_epi16(to + j, there, pairs_rounded(y));
        }
    }
}

X86_V4_BF16 static void
dots(int64_t n, int64_t words, const uint32_t *x, int64_t x_row, const uint32_t *y, int64_t y_row, float *dot)
{
    for (int64_t i = 0; i < n; i++, x += x_row, y += y_row) {
        __m512 sum = _mm512_setzero_ps();
        for (int64_t j = 0; j < words; j += FLOATS) {
            __mmask16 there = some(words - j);
            sum = _mm512_dpbf16_ps(sum, (__m512bh)_mm512_maskz_loadu_epi32(there, x + j),
                                   (__m512bh)_mm512_maskz_loadu_epi32(there, y + j));
        }
        dot[i] = _mm512_reduce_add_ps(sum);
    }
}
#endif

const struct pairs *
bf16_pairs_here(void)
{
#ifdef X86_LEVELS
    static const struct pairs own = {pairs_interleave, pairs_exps, times, grads, pairs_store, dots};
    if (gemm_pairs()) return &own;
#endif
    return NULL;
}
