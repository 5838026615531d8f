/* lanes.h - vectors of sixteen floats, for loops that add up.
 *
 * gcc moves an array of lanes to memory and back when a loop over single vectors follows a loop over four; vectors with
 * a name stay in registers. On levels of machine without such vectors the compiler takes shorter ones, in the same
 * order. Four of them are enough to hide how long an addition takes. Macros; any thread. */
#ifndef RILLE_KERNELS_CPU_LANES_H
#define RILLE_KERNELS_CPU_LANES_H

enum { LANES = 16, WIDE = 4 * LANES };

typedef float sixteen __attribute__((vector_size(64)));
typedef float sixteen_anywhere __attribute__((vector_size(64), aligned(4), may_alias));
typedef float eight __attribute__((vector_size(32)));
typedef float four __attribute__((vector_size(16)));

/* The sixteen floats from x on. */
#define AT(x) (*(const sixteen_anywhere *)(x))

#define LOWER(v)  __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)
#define UPPER(v)  __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)
#define LOWER4(v) __builtin_shufflevector(v, v, 0, 1, 2, 3)
#define UPPER4(v) __builtin_shufflevector(v, v, 4, 5, 6, 7)

/* sum += all lanes of the four vectors v[0]..v[3], by halves. */
#define FOLD_SUM(v, sum)                                                                                               \
    do {                                                                                                               \
        sixteen all = (v[0] + v[2]) + (v[1] + v[3]);                                                                   \
        eight half = LOWER(all) + UPPER(all);                                                                          \
        four rest = LOWER4(half) + UPPER4(half);                                                                       \
        sum += (rest[0] + rest[2]) + (rest[1] + rest[3]);                                                              \
    } while (0)

#endif
