/* rng.c - Philox4x32-10: ten rounds of two 32 x 32 -> 64 bit products, each mixing half of the counter with a key that
 * a Weyl sequence advances.
 *
 * Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3",
 * SC 2011. The counter of element i is (piece, i); a uniform and a normal take
 * one word or two of its block, so that an element stands for itself. */
#include "runtime/rng.h"

#include <math.h>

enum { ROUNDS = 10 };
#define MULTIPLIER_0 0xD2511F53u
#define MULTIPLIER_1 0xCD9E8D57u
#define WEYL_0       0x9E3779B9u /* the golden ratio */
#define WEYL_1       0xBB67AE85u /* sqrt(3) - 1 */

void
philox(uint64_t key, uint64_t hi, uint64_t lo, uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)lo, c1 = (uint32_t)(lo >> 32), c2 = (uint32_t)hi, c3 = (uint32_t)(hi >> 32);

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t p0 = (uint64_t)MULTIPLIER_0 * c0, p1 = (uint64_t)MULTIPLIER_1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += WEYL_0;
        k1 += WEYL_1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Calls must not share streams even for seeds and ordinals that are near each other: the block cipher itself mixes. */
uint64_t
rng_key(uint64_t seed, uint64_t ordinal)
{
    uint32_t word[4];
    philox(seed, 0x72696c6c65ull, ordinal, word);
    return (uint64_t)word[1] << 32 | word[0];
}

float
rng_uniform(uint64_t key, uint64_t piece, uint64_t i)
{
    uint32_t word[4];
    philox(key, piece, i, word);
    return (float)(word[0] >> 8) * 0x1p-24f;
}

/* Box & Muller 1958: sqrt(-2 ln u) cos(2 pi v), u in (0, 1] so that the logarithm is finite. In double, rounded once:
 * the same bits wherever libm is right to within a float's half unit. */
float
rng_normal(uint64_t key, uint64_t piece, uint64_t i)
{
    uint32_t word[4];
    philox(key, piece, i, word);
    double u = ((double)word[0] + 1.0) * 0x1p-32;
    double v = (double)word[1] * 0x1p-32;
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586476925 * v));
}

uint64_t
rng_bits(uint64_t key, uint64_t piece, uint64_t i)
{
    uint32_t word[4];
    philox(key, piece, i, word);
    return (uint64_t)word[1] << 32 | word[0];
}
