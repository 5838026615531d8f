/* rng.h - counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011).
 *
 * A value is a pure function of (key, position): key = (seed, ordinal of the random call), position = index of the
 * element in the whole tensor (and the piece). So it does not depend on how many ranks made it. */
#ifndef RILLE_RUNTIME_RNG_H
#define RILLE_RUNTIME_RNG_H

#include "runtime/base.h"

/* Four 32-bit words of counter (hi, lo) under key. */
void philox(uint64_t key, uint64_t hi, uint64_t lo, uint32_t out[4]);
/* The key of the ordinal-th random call under seed. */
uint64_t rng_key(uint64_t seed, uint64_t ordinal);
/* Element i: uniform in [0, 1) with 24 bits; standard normal (Box-Muller on the pair of its counter); 64 bits. */
float rng_uniform(uint64_t key, uint64_t piece, uint64_t i);
float rng_normal(uint64_t key, uint64_t piece, uint64_t i);
uint64_t rng_bits(uint64_t key, uint64_t piece, uint64_t i);

#endif
