/* rng.h - counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011).
 *
 * A value is a pure function of (key, position): key = (seed, ordinal of the random call), position = index of the
 * element in the global tensor, and the micro-batch. The value therefore does not depend on the number of ranks.
 * Pure; any thread. */
#ifndef RILLE_RUNTIME_RNG_H
#define RILLE_RUNTIME_RNG_H

#include "runtime/base/base.h"

/* Computes four 32-bit words of counter (hi, lo) under key. */
void philox(uint64_t key, uint64_t hi, uint64_t lo, uint32_t out[4]);
/* Returns the key of the ordinal-th random call under seed. */
uint64_t rng_key(uint64_t seed, uint64_t ordinal);
/* Element i. Elements use all four words of a block: 32 bits are word i % 4 of the block of counter (piece, i / 4), 64
 * bits two words of block i / 2, the lower first. */
uint32_t rng_word(uint64_t key, uint64_t piece, uint64_t i);
uint64_t rng_bits(uint64_t key, uint64_t piece, uint64_t i);
/* Uniform in [0, 1), the first `digits` binary digits: up to 32 of the word, more (up to 53) of the 64 bits. */
double rng_uniform(uint64_t key, uint64_t piece, uint64_t i, int digits);
/* Standard normal. A pair of neighbouring elements shares a pair of words (f64: two pairs): the even element takes
 * the cosine, the odd one the sine. */
float rng_normal(uint64_t key, uint64_t piece, uint64_t i);
double rng_normal_f64(uint64_t key, uint64_t piece, uint64_t i);
/* Returns element i of a permutation of 0 .. n - 1 given by the key. Needs no table, so an epoch may have any
 * length. */
uint64_t rng_shuffle(uint64_t key, uint64_t n, uint64_t i);

#endif
