/* exact.h - e^(x - y) to 36 digits as an integer, bit-identical on all machines. Ranks can add such integers in any
 * order, and the small difference between a sum near 1 and 1 keeps its digits.
 *
 * A 128-bit integer is two words, the low word first. A fraction has units of 2^-128. e^r of a remainder r is ((1 +
 * p)^2)^2..., where p = e^(r / 16) - 1 is computed by its series. Pure; any thread. */
#ifndef RILLE_KERNELS_CPU_EXACT_H
#define RILLE_KERNELS_CPU_EXACT_H

#include <math.h>
#include <stdint.h>

/* Returns the high word of a product. */
static inline uint64_t
high_product(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 product;
    return (uint64_t)((product)a * b >> 64);
}

/* Macros with one source text for all machines. */
#define EXACT_TEXT(...)  EXACT_TEXT_(__VA_ARGS__)
#define EXACT_TEXT_(...) #__VA_ARGS__

/* clang-format off */

/* to += a */
#define EXACT_ADD                                                                                                      \
    {                                                                                                                  \
        to[0] += a[0];                                                                                                 \
        to[1] += a[1] + (to[0] < a[0]);                                                                                \
    }

/* to = a b for fractions; at most 2^-127 too small. */
#define EXACT_TIMES                                                                                                    \
    {                                                                                                                  \
        const uint64_t low = a[1] * b[1], c = high_product(a[1], b[0]), d = high_product(a[0], b[1]), sum = low + c;   \
        to[1] = high_product(a[1], b[1]) + (sum < c) + (sum + d < d);                                                  \
        to[0] = sum + d;                                                                                               \
    }

/* to = x in units of 2^-120, |x| < 128. */
#define EXACT_OF                                                                                                       \
    {                                                                                                                  \
        int e = 0;                                                                                                     \
        const int64_t digits = (int64_t)ldexp(frexp(x, &e), 53);                                                       \
        const int up = e + 120 - 53;                                                                                   \
        const uint64_t sign = digits < 0 ? ~(uint64_t)0 : 0, word = (uint64_t)digits;                                  \
        to[0] = up >= 64 || up <= -64 ? 0 : up >= 0 ? word << up : word >> -up | (up < 0 ? sign << (64 + up) : 0);     \
        to[1] = up <= -64 ? 0 : up >= 64 ? word << (up - 64) : up > 0 ? sign << up | word >> (64 - up) : sign;         \
    }

/* to = e^(x - y) in units of 2^-126, |y| < 30; 0 if x - y > 1 or is NaN. */
#define EXACT_EXP                                                                                                      \
    {                                                                                                                  \
        const uint64_t ln2[2] = {0xc9e3b39803f2f6af, 0xb17217f7d1cf79ab};                                              \
        const uint64_t factor[16][2] = { /* 1 / 17! to 1 / 2! */                                                       \
            {0x3b81856a53593029, 0xca96}, {0xf399dc0f88ec32b6, 0xd73f9},                                               \
            {0x399dc0f88ec32b58, 0xd73f9f}, {0x603e4e905d6f8a2f, 0xc9cba54},                                           \
            {0x43684be51c198e92, 0xb092309d}, {0x6c4bdaa26d4c3d68, 0x8f76c77fc},                                       \
            {0x138e3f9d1f92e0df, 0x6b99159fd5}, {0xd71cbbc05b4fa99a, 0x49f93edde27},                                   \
            {0x671f5583911ca003, 0x2e3bc74aad8e}, {0xa01a01a01a01a01a, 0x1a01a01a01a01},                               \
            {0xd00d00d00d00d0, 0xd00d00d00d00d}, {0x5b05b05b05b05b0, 0x5b05b05b05b05b},                                \
            {0x2222222222222222, 0x222222222222222}, {0xaaaaaaaaaaaaaaab, 0xaaaaaaaaaaaaaaa},                          \
            {0xaaaaaaaaaaaaaaab, 0x2aaaaaaaaaaaaaaa}, {0x0, 0x8000000000000000}};                                      \
        uint64_t r[2], p[2], q[2];                                                                                     \
        const double t = x - y;                                                                                        \
        to[0] = to[1] = 0;                                                                                             \
        if (!(t > -87 && t <= 1)) return;                                                                              \
        exact_of(x, r);                                                                                                \
        exact_of(-y, q);                                                                                               \
        exact_add(q, r);                                                                                               \
        int k = (int)floor(t * 1.4426950408889634);                                                                    \
        const uint64_t times = k < 0 ? (uint64_t)-k : ~(uint64_t)k + 1;                                                \
        p[0] = times * ln2[0];                                                                                         \
        p[1] = times * ln2[1] + high_product(k < 0 ? times : 0, ln2[0]) - (k > 0);                                     \
        r[1] = r[1] << 8 | r[0] >> 56; /* units of 2^-128: drops the integer part, as p did */                         \
        r[0] <<= 8;                                                                                                    \
        exact_add(p, r);                                                                                               \
        if (r[1] >> 62 == 3) { /* slightly below 0 */                                                                  \
            exact_add(ln2, r);                                                                                         \
            k--;                                                                                                       \
        }                                                                                                              \
        r[0] = r[0] >> 4 | r[1] << 60;                                                                                 \
        r[1] >>= 4;                                                                                                    \
        q[0] = q[1] = 0;                                                                                               \
        for (int i = 0; i < 16; i++) {                                                                                 \
            exact_add(factor[i], q);                                                                                   \
            p[0] = q[0];                                                                                               \
            p[1] = q[1];                                                                                               \
            exact_times(r, p, q);                                                                                      \
        }                                                                                                              \
        exact_times(r, q, p);                                                                                          \
        exact_add(r, p);                                                                                               \
        for (int i = 0; i < 3; i++) { /* (1 + p)^2 - 1 */                                                              \
            exact_times(p, p, q);                                                                                      \
            p[1] = p[1] << 1 | p[0] >> 63;                                                                             \
            p[0] <<= 1;                                                                                                \
            exact_add(q, p);                                                                                           \
        }                                                                                                              \
        exact_times(p, p, q);                                                                                          \
        to[0] = q[0] >> 2 | q[1] << 62;                                                                                \
        to[1] = (q[1] >> 2) + ((uint64_t)1 << 62);                                                                     \
        p[0] = p[0] >> 1 | p[1] << 63;                                                                                 \
        p[1] >>= 1;                                                                                                    \
        exact_add(p, to);                                                                                              \
        exact_shift(k, to);                                                                                            \
    }

/* to *= 2^k, rounded. */
#define EXACT_SHIFT                                                                                                    \
    {                                                                                                                  \
        const int down = -k;                                                                                           \
        if (k > 0) to[1] = to[1] << k | to[0] >> (64 - k), to[0] <<= k;                                                \
        if (k >= 0) return;                                                                                            \
        const uint64_t half[2] = {down <= 64 ? (uint64_t)1 << (down - 1) : 0,                                          \
                                  down > 64 ? (uint64_t)1 << (down - 65) : 0};                                         \
        exact_add(half, to);                                                                                           \
        to[0] = down >= 64 ? to[1] >> (down - 64) : to[0] >> down | to[1] << (64 - down);                              \
        to[1] = down >= 64 ? 0 : to[1] >> down;                                                                        \
    }

/* Encodings of e, an exponential in units of 2^-126, in a sum near 1 that ranks add up. EXACT_UNITS: units of
 * 2^-108, wrapping around in 64 bits, so the 1 itself is not represented; sufficient if the sum is within 2^-44 of
 * the expected value. EXACT_MORE: the rest of EXACT_UNITS, in units of 2^-126. EXACT_SHORT, for floats: units of
 * 2^-76, wrapping around in 32 bits. EXACT_NEAR: units of 2^-80, for a sum within 2^-17 of 1 but not that near. */
enum { EXACT_UNITS, EXACT_MORE, EXACT_SHORT, EXACT_NEAR };
#define EXACT_PART                                                                                                     \
    {                                                                                                                  \
        return (int64_t)(part == 0   ? e[0] >> 18 | e[1] << 46                                                         \
                         : part == 1 ? e[0] & 0x3ffff                                                                  \
                         : part == 2 ? (e[0] >> 50 | e[1] << 14) + (e[0] >> 49 & 1)                                    \
                                     : (e[0] >> 46 | e[1] << 18) + (e[0] >> 45 & 1));                                  \
    }

static inline void exact_add(const uint64_t *a, uint64_t *to) EXACT_ADD
static inline void exact_times(const uint64_t *a, const uint64_t *b, uint64_t *to) EXACT_TIMES
static inline void exact_of(double x, uint64_t *to) EXACT_OF
static inline void exact_shift(int k, uint64_t *to) EXACT_SHIFT
static inline void exact_exp(double x, double y, uint64_t *to) EXACT_EXP
static inline int64_t exact_part(const uint64_t *e, int part) EXACT_PART

/* clang-format on */

/* The same functions as lambdas, in the texts of compiled kernels. */
#define EXACT_LAMBDA(name, args, body) "const auto " #name " = [&]" #args EXACT_TEXT(body) ";\n"
#define EXACT_BODY                                                                                                     \
    EXACT_LAMBDA(exact_add, (const uint64_t *a, uint64_t *to), EXACT_ADD)                                              \
    EXACT_LAMBDA(exact_times, (const uint64_t *a, const uint64_t *b, uint64_t *to), EXACT_TIMES)                       \
    EXACT_LAMBDA(exact_of, (double x, uint64_t *to), EXACT_OF)                                                         \
    EXACT_LAMBDA(exact_shift, (int k, uint64_t *to), EXACT_SHIFT)                                                      \
    EXACT_LAMBDA(exact_exp, (double x, double y, uint64_t *to), EXACT_EXP)                                             \
    EXACT_LAMBDA(exact_part, (const uint64_t *e, int part), EXACT_PART)

#endif
