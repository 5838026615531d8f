/* rng.c - Philox4x32-10: ten rounds, each with two products of 32 bits by 32 bits. In each round, half of the
 * counter is combined with a key; a Weyl sequence changes the key from round to round.
 *
 * Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. The counter of a block is
 * (micro-batch, block number). The four 32-bit words of a block serve four elements, or two elements that need 64
 * bits each. */
#include "runtime/data/rng.h"

#include <math.h>

enum { ROUNDS = 10 };
#define MULTIPLIER_0 0xD2511F53u
#define MULTIPLIER_1 0xCD9E8D57u
#define WEYL_0       0x9E3779B9u /* 32 bits of the golden ratio */
#define WEYL_1       0xBB67AE85u /* 32 bits of sqrt(3) - 1 */

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

/* Combines seed and ordinal by Philox itself, so that nearby seeds and ordinals give unrelated streams. */
uint64_t
rng_key(uint64_t seed, uint64_t ordinal)
{
    uint32_t word[4];
    philox(seed, 0x72696c6c65ull, ordinal, word);
    return (uint64_t)word[1] << 32 | word[0];
}

uint32_t
rng_word(uint64_t key, uint64_t piece, uint64_t i)
{
    uint32_t word[4];
    philox(key, piece, i / 4, word);
    return word[i % 4];
}

uint64_t
rng_bits(uint64_t key, uint64_t piece, uint64_t i)
{
    uint32_t word[4];
    philox(key, piece, i / 2, word);
    const uint32_t *pair = word + i % 2 * 2;
    return (uint64_t)pair[1] << 32 | pair[0];
}

double
rng_uniform(uint64_t key, uint64_t piece, uint64_t i, int digits)
{
    if (digits <= 32) return ldexp(rng_word(key, piece, i) >> (32 - digits), -digits);
    return ldexp((double)(rng_bits(key, piece, i) >> (64 - digits)), -digits);
}

/* Returns a normal number by Box & Muller (1958): sqrt(-2 ln u) times the cosine or the sine of 2 pi v. u is in (0,
 * 1], so that the logarithm is finite. */
static double
normal(double u, double v, bool odd)
{
    double turn = 6.283185307179586476925 * v;
    return sqrt(-2.0 * log(u)) * (odd ? sin(turn) : cos(turn));
}

/* Computes a normal number in double and rounds it once. So the bits are the same with any libm whose error is
 * small against the precision of a float. */
float
rng_normal(uint64_t key, uint64_t piece, uint64_t i)
{
    double u = ((double)rng_word(key, piece, i & ~1ull) + 1.0) * 0x1p-32;
    return (float)normal(u, (double)rng_word(key, piece, i | 1) * 0x1p-32, i % 2);
}

double
rng_normal_f64(uint64_t key, uint64_t piece, uint64_t i)
{
    double u = ((double)(rng_bits(key, piece, i & ~1ull) >> 11) + 1.0) * 0x1p-53;
    return normal(u, (double)(rng_bits(key, piece, i | 1) >> 11) * 0x1p-53, i % 2);
}

/* Encrypts i by a Feistel network of six rounds, with Philox as round function, over the least even number of bits
 * that can hold n. If the result is outside 0 .. n - 1, encrypts it again until it is inside (cycle walking; Black &
 * Rogaway 2002): at most four times on average. */
uint64_t
rng_shuffle(uint64_t key, uint64_t n, uint64_t i)
{
    enum { ROUND_KEYS = 6 };
    int half = 1;
    while (half < 32 && (n - 1) >> (2 * half)) half++;
    uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = i >> half, right = i & mask;
        for (uint64_t round = 0; round < ROUND_KEYS; round++) {
            uint64_t next = left ^ (rng_bits(key, round, right) & mask);
            left = right;
            right = next;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}
