/* pairs.c - rows of bf16 made ready for products of pairs. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/pairs.h"

#include "runtime/half.h"
#include "runtime/simd.h"

#ifdef X86_LEVELS
#include <immintrin.h>

enum { HALVES = 32, FLOATS = 16 }; /* of a vector */

/* The first n lanes. */
X86_V4_BF16 INLINE __mmask16
some(int64_t n)
{
    return n >= FLOATS ? 0xffff : (__mmask16)((1u << n) - 1);
}

/* Two vectors of halves, word by word. */
X86_V4_BF16 INLINE __m512i
joined(__m256i low, __m256i high)
{
    return _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
}

X86_V4_BF16 static void
join(int64_t n, int64_t size, const uint16_t *x, int64_t row, uint32_t *to, int64_t pitch)
{
    for (int64_t i = 0; i < n; i += 2, x += 2 * row, to += pitch)
        for (int64_t j = 0; j < pitch; j += FLOATS) {
            __mmask16 there = some(MAX(size - j, 0)), both = i + 1 < n ? there : 0;
            __m256i low = _mm256_maskz_loadu_epi16(there, x + j), high = _mm256_maskz_loadu_epi16(both, x + row + j);
            _mm512_storeu_si512(to + j, joined(low, high));
        }
}

X86_V4_BF16 INLINE __m256i
rounded(__m512 x)
{
    return (__m256i)_mm512_cvtneps_pbh(x);
}

X86_V4_BF16 static void
round_rows(int64_t n, int64_t width, const float *x, uint16_t *plain, uint32_t *to)
{
    for (int64_t i = 0; i < n; i += 2, x += 2 * width)
        for (int64_t j = 0; j < width; j += FLOATS) {
            __m256i low = rounded(_mm512_loadu_ps(x + j)), high = rounded(_mm512_loadu_ps(x + width + j));
            if (plain) {
                _mm256_storeu_si256((void *)(plain + i * width + j), low);
                _mm256_storeu_si256((void *)(plain + (i + 1) * width + j), high);
            }
            if (to) _mm512_storeu_si512(to + i / 2 * width + j, joined(low, high));
        }
}

X86_V4_BF16 static void
store(int64_t n, int64_t size, const float *x, int64_t pitch, const float *factor, uint16_t *to, int64_t row)
{
    for (int64_t i = 0; i < n; i++, x += pitch, to += row) {
        __m512 f = _mm512_set1_ps(factor ? factor[i] : 1);
        for (int64_t j = 0; j < size; j += FLOATS) {
            __mmask16 there = some(size - j);
            __m512 y = _mm512_mul_ps(f, _mm512_maskz_loadu_ps(there, x + j));
            _mm256_mask_storeu_epi16(to + j, there, to_bf16_sixteen(y));
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
pairs_here(void)
{
#ifdef X86_LEVELS
    static const struct pairs own = {.join = join, .round = round_rows, .store = store, .dots = dots};
    if (gemm_pairs()) return &own;
#endif
    return NULL;
}
