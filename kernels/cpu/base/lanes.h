/* lanes.h - compiles loops that accumulate LANES sums side by side, once per machine level (x86-64 v4, v3, any).
 *
 * The sums are kept in vectors as wide as the level's registers. One function compiled for all levels (simd.h) would
 * be too slow, because gcc keeps a wider vector in memory and copies it element by element at every addition.
 * lanes_levels.inc therefore includes the file LANES_FILE once per level, with
 *
 *   LEVEL(by_halves) name of the level's function by_halves: by_halves_v4, by_halves_v3, by_halves_any
 *   AT_LEVEL         attributes of the level's functions
 *   MM(name)         the level's intrinsic of that name; undefined if the processor is no x86-64
 *   vec, VEC, NVEC   a vector as wide as a register, its number of floats, and the number of vectors in LANES floats
 *   AT(x)            the vector at address x
 *   STREAMS_OF(n)    number of streams (of four) that are summed at once, so that n sums per stream fit the registers
 *
 * OF_LEVEL(by_halves) is the function for this machine. Each level adds in the same order: four streams of LANES
 * sums, joined by FOLD_SUM. Four streams hide the latency of an addition.
 *
 * A level's function may call another function of the level only if that one is inlined. Otherwise gcc 12 omits
 * vzeroupper before a tail call, and the caller's SSE code takes up to 0.2 us longer. Macros; any thread. */
#ifndef RILLE_KERNELS_CPU_LANES_H
#define RILLE_KERNELS_CPU_LANES_H

#include "runtime/base/simd.h"

enum { LANES = 16, WIDE = 4 * LANES };

typedef float sixteen __attribute__((vector_size(64)));
typedef float eight __attribute__((vector_size(32)));
typedef float four __attribute__((vector_size(16)));
typedef float sixteen_anywhere __attribute__((vector_size(64), aligned(4), may_alias));
typedef float eight_anywhere __attribute__((vector_size(32), aligned(4), may_alias));
typedef float four_anywhere __attribute__((vector_size(16), aligned(4), may_alias));

#define LOWER(v)  __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)
#define UPPER(v)  __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)
#define LOWER4(v) __builtin_shufflevector(v, v, 0, 1, 2, 3)
#define UPPER4(v) __builtin_shufflevector(v, v, 4, 5, 6, 7)

/* Adds up LANES sums until four are left: repeatedly adds the upper half of the sums to the lower half. */
INLINE four
by_halves_v4(const sixteen *v)
{
    eight half = LOWER(v[0]) + UPPER(v[0]);
    return LOWER4(half) + UPPER4(half);
}

INLINE four
by_halves_v3(const eight *v)
{
    eight half = v[0] + v[1];
    return LOWER4(half) + UPPER4(half);
}

INLINE four
by_halves_any(const four *v)
{
    return (v[0] + v[2]) + (v[1] + v[3]);
}

/* Adds all lanes of the four streams v[0] to v[3] to the number `sum`. */
#define FOLD_SUM(v, sum)                                                                                               \
    do {                                                                                                               \
        vec all[NVEC];                                                                                                 \
        for (int p = 0; p < NVEC; p++) all[p] = ((v)[0][p] + (v)[2][p]) + ((v)[1][p] + (v)[3][p]);                     \
        four rest = LEVEL(by_halves)(all);                                                                             \
        sum += (rest[0] + rest[2]) + (rest[1] + rest[3]);                                                              \
    } while (0)

#ifdef X86_LEVELS
#define OF_LEVEL(name) (machine_level() == LEVEL_V4 ? name##_v4 : machine_level() == LEVEL_V3 ? name##_v3 : name##_any)
#else
#define OF_LEVEL(name) name##_any
#endif

#endif
