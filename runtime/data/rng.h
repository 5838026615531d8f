/* rng.h - counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011).
 *
 * A random value is a pure function of a key and a position. The key consists of the seed and the ordinal of the
 * random call. The position consists of the element's index in the global tensor and the micro-batch. So the value
 * does not depend on the number of ranks. Pure; any thread. */
#ifndef RILLE_RUNTIME_DATA_RNG_H
#define RILLE_RUNTIME_DATA_RNG_H

#include "runtime/base/base.h"

/* Computes the four 32-bit words of the block with counter (hi, lo) under `key`. */
void philox(uint64_t key, uint64_t hi, uint64_t lo, uint32_t out[4]);
/* Returns the key of random call number `ordinal` under `seed`. */
uint64_t rng_key(uint64_t seed, uint64_t ordinal);
/* Return the random bits of element i. Philox returns blocks of four 32-bit words, all of which are used. The 32
 * bits of an element are word i % 4 of the block with counter (piece, i / 4). The 64 bits of an element are two
 * words of block i / 2, the lower word first. piece: number of the micro-batch. */
uint32_t rng_word(uint64_t key, uint64_t piece, uint64_t i);
uint64_t rng_bits(uint64_t key, uint64_t piece, uint64_t i);
/* Returns a uniform number in [0, 1) with `digits` random binary digits, at most 53. Uses the 32 random bits of
 * element i (rng_word) for up to 32 digits, else the element's 64 bits (rng_bits). */
double rng_uniform(uint64_t key, uint64_t piece, uint64_t i, int digits);
/* Return standard normal numbers. Two neighbouring elements share a pair of words (f64: two pairs): the even element
 * uses the cosine, the odd one the sine. */
float rng_normal(uint64_t key, uint64_t piece, uint64_t i);
double rng_normal_f64(uint64_t key, uint64_t piece, uint64_t i);
/* Returns element i of a permutation of 0 .. n - 1, which the key determines. The function needs no table, so n may
 * be arbitrarily large. */
uint64_t rng_shuffle(uint64_t key, uint64_t n, uint64_t i);

#endif
