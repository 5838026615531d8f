/* gemm_few.c - products of a few rows by a matrix b. Columns of b are read as four sequential streams; rows of b
 * are read one by one.
 *
 * The hardware prefetches each stream, so reading four streams is faster than one. Non-temporal prefetches keep
 * lines that are read once out of the outer caches. On Intel cores, lines further ahead are also prefetched into
 * the second-level cache, because a stream of a few hundred KB ends before the hardware prefetcher is far ahead.
 *
 * Speed of reading b on one core of a shared EPYC, GB/s; a plain sum of the same data reaches 32:
 *
 *                                           this file   oneDNN
 *    1 x 768 x 50,257                        33 to 35       26
 *    48 products of 768 x 768 in sequence    34 to 42       22
 *
 * Effect of the prefetches:
 *
 *                                                         without     with
 *    non-temporal: a GPT-2 token, f32, 2 Zen 4 cores      7.55 ms   7.1 ms
 *    second level: 4 streams, 1.2 MB, Sapphire Rapids   14.0 GB/s     15.8
 *    second level: 1 stream, 197 KB, Sapphire Rapids    10.8 GB/s     13.8
 *    second level: 4 streams, Zen 5 (not used)            35 GB/s       31
 *    second level: columns of 64, Zen 5 (not used)        30 GB/s       23 */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/gemm/gemm_few.h"

#include "kernels/cpu/base/lanes.h"
#include "runtime/base/simd.h"

/* Number of streams, and prefetch distances. LANES sums are computed side by side, which fixes the order of
 * additions. */
enum {
    STREAMS = FEW_STREAMS,
    /* Distance of prefetches on cores with a good hardware prefetcher, bytes. 128 is equally fast; 0 and 256 are
     * slower. */
    ONCE = 64,
    AHEAD = 4096,         /* distance of prefetches for a single stream, bytes */
    AHEAD_OF_FOUR = 2048, /* distance of prefetches for four streams, bytes */
    ROWS_AHEAD = 16,
    STRIP = 4
};

/* Adds up the lanes of four vectors together. Adding up one vector after the other would take longer than the dot
 * product of a short column. */
INLINE four
few_sums(four a, four b, four c, four d)
{
    four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    four ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    return (__builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5)) +
           (__builtin_shufflevector(ab, cd, 2, 3, 6, 7) + __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7));
}

/* Returns the address of entry l of a column of floats or of bf16. */
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

/* Returns the number of a column's elements that are multiplied per step. bf16 are multiplied in pairs, as words
 * hold them, because widening each bf16 separately takes longer than reading it. On one Zen 4 (EPYC) core, pairs
 * raise the speed of reading b from 25.9 to 30.8 GB/s. */
INLINE int64_t
few_at_once(bool halves)
{
    return halves ? FEW_PAIRED : LANES;
}

/* Addresses of the columns of b and c in the current turn. A turn computes up to four columns, one per stream.
 * b_step, c_step: distances to the columns of the next turn. */
struct streams {
    const void *b[STREAMS];
    float *c[STREAMS];
    int64_t b_step, c_step; /* distances to the columns of the next turn: in b bytes, in c elements */
    int64_t each;           /* number of turns that compute four columns; the next turn computes the rest */
    int n;                  /* number of columns of c that this turn writes */
    bool alone;             /* true: the core has a good hardware prefetcher */
    /* prefetch distance on cores without a good hardware prefetcher, bytes */
    int64_t ahead;
};

/* Sets stream i to column j of b and c. */
INLINE void
few_column(const struct few *p, int64_t j, bool halves, int i, struct streams *s)
{
    s->b[i] = few_entry(p->b, j * p->b_col, halves);
    s->c[i] = p->c + j * p->c_col;
}

/* Returns the streams at turn 0. Short columns are read as one sequential stream, because each of four streams
 * would end before the hardware prefetcher starts. For 12 x 128 columns of 64 (393 KB from memory), this shortens
 * the product from 24 to 10 us. */
INLINE struct streams
few_streams(const struct few *p, struct few_columns of, bool halves)
{
    bool in_turn = p->k < GEMM_SHORT;
    struct streams s = {.n = STREAMS, .each = (of.end - of.first) / STREAMS, .alone = machine_fetches_ahead()};
    s.ahead = in_turn ? AHEAD : AHEAD_OF_FOUR;
    s.c_step = p->c_col * (in_turn ? STREAMS : 1);
    s.b_step = p->b_col * (in_turn ? STREAMS : 1) * (halves ? 2 : 4);
    for (int i = 0; i < STREAMS; i++) few_column(p, of.first + i * (in_turn ? 1 : s.each), halves, i, &s);
    return s;
}

/* Advances the streams by a number of turns. */
INLINE void
few_walk(struct streams *s, int64_t turns)
{
    for (int i = 0; i < STREAMS; i++) {
        s->b[i] = (const char *)s->b[i] + turns * s->b_step;
        s->c[i] += turns * s->c_step;
    }
}

/* Sets the streams to the remaining columns, of which there are fewer than four. A stream without a column reads
 * the last column, but does not store it. */
INLINE void
few_rest(const struct few *p, struct few_columns of, bool halves, struct streams *s)
{
    int64_t first = of.first + STREAMS * s->each;
    s->n = (int)(of.end - first);
    for (int i = 0; i < STREAMS; i++) few_column(p, first + MIN(i, s->n - 1), halves, i, s);
}

/* Stores row i of c for the columns of this turn. Each result is the column's sum over whole vectors plus the
 * products of the last elements, which fill no vector. */
INLINE void
few_finish(const struct few *p, int i, bool halves, four sum, const struct streams *of)
{
    float total[STREAMS];
    memcpy(total, &sum, sizeof total);
    for (int j = 0; j < of->n; j++) {
        for (int64_t l = p->k - p->k % few_at_once(halves); l < p->k; l++)
            total[j] += p->a[i * p->a_row + l] * number_at(of->b[j], l, halves);
        float *to = of->c[j] + i * p->c_row;
        *to = p->add ? *to + total[j] : total[j];
    }
}

/* Prefetches streams from .. to - 1 at a fixed distance after element l. */
INLINE void
prefetch_streams(const struct streams *of, int from, int to, int64_t l, bool halves)
{
    if (of->alone)
        for (int j = from; j < to; j++) __builtin_prefetch((const char *)few_entry(of->b[j], l, halves) + ONCE, 0, 0);
    else
        for (int j = from; j < to; j++)
            __builtin_prefetch((const char *)few_entry(of->b[j], l, halves) + of->ahead, 0, 2);
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
