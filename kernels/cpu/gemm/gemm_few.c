/* gemm_few.c - products of a few rows: columns of b are read as four sequential streams; rows are read one by one.
 *
 * The hardware prefetches each stream, so four streams come from memory faster than one. One core of a shared EPYC,
 * 1 x 768 x 50,257: 33 to 35 GB/s of b, 48 products of 768 x 768 in sequence 34 to 42; oneDNN 26 and 22, a sum over
 * such memory 32. Non-temporal prefetches keep read-once lines out of the outer caches: all products of one GPT-2
 * token, f32, take 7.1 ms on two Zen 4 cores, without 7.55. On Intel cores more distant lines are prefetched into
 * the second-level cache as well, because a stream of some hundred KB ends before the hardware prefetcher is far
 * ahead: on a Xeon (Sapphire Rapids) four streams of 1.2 MB in all go from 14.0 to 15.8 GB/s, one of 197 KB from
 * 10.8 to 13.8. On a Zen 5 (EPYC) that would cost: 31 GB/s instead of 35, and 23 instead of 30 for columns of 64. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/gemm/gemm_few.h"

#include "kernels/cpu/base/lanes.h"
#include "runtime/base/simd.h"

enum {
    STREAMS = FEW_STREAMS,
    ONCE = 64,            /* bytes ahead, on cores with a good prefetcher: 128 as fast, 0 and 256 slower */
    AHEAD = 4096,         /* bytes, for a single stream */
    AHEAD_OF_FOUR = 2048, /* bytes */
    ROWS_AHEAD = 16,
    STRIP = 4
}; /* the order of additions is fixed: LANES sums side by side */

/* Sums the lanes of four vectors together; one after the other would take longer than a short column. */
INLINE four
few_sums(four a, four b, four c, four d)
{
    four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    four ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    return (__builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5)) +
           (__builtin_shufflevector(ab, cd, 2, 3, 6, 7) + __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7));
}

/* Returns the address of an entry of a column of floats, or of bf16. */
INLINE const void *
few_entry(const void *column, int64_t l, bool halves)
{
    return (const char *)column + l * (halves ? 2 : 4);
}

INLINE float
number_at(const void *column, int64_t l, bool halves)
{
    if (!halves) return ((const float *)column)[l];
    return float_of((uint32_t)((const uint16_t *)column)[l] << 16);
}

/* Returns the number of a column's elements per step. bf16 are multiplied in pairs, as stored in words, because
 * widening each separately takes longer than reading it. One Zen 4 (EPYC) core: 30.8 GB/s of b instead of 25.9. */
INLINE int64_t
few_at_once(bool halves)
{
    return halves ? FEW_PAIRED : LANES;
}

/* Completes n columns of row i of c: the sums of whole vectors plus the remainder of each column. */
INLINE void
few_finish(const struct few *p, int i, int n, bool halves, four sum, const void *const *b, float *const *c)
{
    float total[STREAMS];
    memcpy(total, &sum, sizeof total);
    for (int j = 0; j < n; j++) {
        for (int64_t l = p->k - p->k % few_at_once(halves); l < p->k; l++)
            total[j] += p->a[i * p->a_row + l] * number_at(b[j], l, halves);
        float *to = c[j] + i * p->c_row;
        *to = p->add ? *to + total[j] : total[j];
    }
}

/* Prefetches a stream. alone: the core has a good hardware prefetcher. */
INLINE void
prefetch_column(const void *at, bool alone, int64_t ahead)
{
    if (alone)
        __builtin_prefetch((const char *)at + ONCE, 0, 0);
    else
        __builtin_prefetch((const char *)at + ahead, 0, 2);
}

#define LANES_FILE "kernels/cpu/gemm/gemm_few_level.inc"
#include "kernels/cpu/base/lanes_levels.inc"

void
gemm_few(const struct few *p, int64_t lo, int64_t hi)
{
    struct few_columns all = {lo, hi};
    OF_LEVEL(by_rows)(p, all, 0, few_turns(all));
}

void
gemm_few_pair(int64_t k, float *a)
{
    float own[FEW_PAIRED];
    for (; k >= FEW_PAIRED; k -= FEW_PAIRED, a += FEW_PAIRED) {
        memcpy(own, a, sizeof own);
        for (int l = 0; l < FEW_PAIRED; l++) a[l % 2 * LANES + l / 2] = own[l];
    }
}

int64_t
few_turns(struct few_columns of)
{
    return (of.end - of.first + STREAMS - 1) / STREAMS;
}

void
gemm_few_turns(const struct few *p, struct few_columns of, int64_t lo, int64_t hi)
{
    OF_LEVEL(by_rows)(p, of, lo, hi);
}
