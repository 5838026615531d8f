/* vmath_f64.c - elementary functions of doubles.
 *
 * The compiler vectorises loops with the C library's vector forms of exp, log and others. The remainder of a block
 * is also computed as a vector of eight, because the scalar function may differ in the last bit, and a result must
 * not depend on the element's place in the block.
 *
 * Times of elements from cache, one core, ns each; in parentheses libm's scalar functions:
 *
 *    AVX-512   exp 0.7 (16), log 0.9, tanh 1.8 (18), erf 1.3, sin 0.7, pow 3.5 (21)
 *    Zen 4     pow 3.8, pow of floats 2.3 */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/math/vmath_f64.h"

#include "runtime/base/simd.h"

#include <math.h>
#include <stdbool.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 35)
#define HAS_LANES __attribute__((simd("notinbranch")))
#endif
#endif
#ifndef HAS_LANES
#define HAS_LANES
#endif
extern HAS_LANES double exp(double x);
extern HAS_LANES double log(double x);
extern HAS_LANES double log1p(double x);
extern HAS_LANES double tanh(double x);
extern HAS_LANES double erf(double x);
extern HAS_LANES double erfc(double x);
extern HAS_LANES double sin(double x);
extern HAS_LANES double cos(double x);
extern HAS_LANES double pow(double x, double y);

enum { EIGHT = 8 };

/* Attributes of a call. order: attribute 0, which is the approximation of gelu, or the order of the derivative of
 * a power. */
struct given {
    int64_t order;
};

/* Defines f64_NAME, which sets y to NAME_one(x, z, given) for each element. The last elements of a block are padded
 * with ones to a full vector. */
#define BLOCK(name, narg)                                                                                              \
    VECTOR static void eights_##name(int64_t n, const double *x, const double *z, struct given g, double *y)           \
    {                                                                                                                  \
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] = name##_one(x[i], z[i], g);                          \
    }                                                                                                                  \
    void f64_##name(const struct call *c, int64_t n, const double *const *x, double *y)                                \
    {                                                                                                                  \
        struct given g = {c->attr ? c->attr[0].i : 0};                                                                 \
        int64_t whole = n / EIGHT * EIGHT;                                                                             \
        const double *z = narg > 1 ? x[1] : x[0];                                                                      \
        double last[3][EIGHT];                                                                                         \
        eights_##name(whole, x[0], z, g, y);                                                                           \
        if (whole == n) return;                                                                                        \
        for (int i = 0; i < EIGHT; i++) {                                                                              \
            last[0][i] = whole + i < n ? x[0][whole + i] : 1;                                                          \
            last[1][i] = whole + i < n ? z[whole + i] : 1;                                                             \
        }                                                                                                              \
        eights_##name(EIGHT, last[0], last[1], g, last[2]);                                                            \
        for (int64_t i = whole; i < n; i++) y[i] = last[2][i - whole];                                                 \
    }

#define PLAIN(name, expr)                                                                                              \
    INLINE double name##_one(double x, double z, struct given g)                                                       \
    {                                                                                                                  \
        UNUSED(z);                                                                                                     \
        UNUSED(g);                                                                                                     \
        return expr;                                                                                                   \
    }                                                                                                                  \
    BLOCK(name, 1)

INLINE double
logistic(double x)
{
    double e = exp(-fabs(x)), up = 1 / (1 + e);
    return x < 0 ? e * up : up;
}

/* Returns x, or a zero of the same sign if x is subnormal. Element-wise functions must treat subnormal numbers as
 * zero, as comparisons do; libm's functions would compute with their bits. */
INLINE double
zero_keeps_sign(double x)
{
    return x == 0 ? 0 * x : x;
}

PLAIN(exp, exp(x))
PLAIN(log, log(x == 0 ? 0 : x))
PLAIN(tanh, tanh(x))
PLAIN(erf, erf(x))
PLAIN(sin, sin(x))
PLAIN(cos, cos(x))
PLAIN(floor, floor(x))
PLAIN(ceil, ceil(x))
PLAIN(round, rint(x))
PLAIN(sigmoid, logistic(x))
PLAIN(silu, x == -INFINITY ? -0.0 : x / (1 + exp(-x)))
PLAIN(silu_derivative, logistic(x) * (1 + (x < -800 ? -800 : x > 800 ? 800 : x) * logistic(-x)))
PLAIN(softplus, (x > 0 ? x : 0) + log1p(exp(-fabs(x))))

/* The tanh approximation of gelu is x s(v), where s is the logistic function and v = A (x + C x^3). */
#define A       1.59576912160573071176 /* 2 sqrt(2 / pi) */
#define C       0.044715
#define DENSITY 0.39894228040143267794 /* density of the normal distribution at 0 */

INLINE double
gelu_one(double x, double z, struct given g)
{
    UNUSED(z);
    double y = g.order ? x * logistic(A * (x + C * x * x * x)) : 0.5 * x * erfc(-x * M_SQRT1_2);
    return x == -INFINITY ? -0.0 : y;
}
BLOCK(gelu, 1)

INLINE double
gelu_derivative_one(double x, double z, struct given g)
{
    UNUSED(z);
    /* Clamps v, because for x = -infinity the product 0 * infinity would be NaN. For |x| > 40 the logistic function
     * s is 1 or 0 anyway. */
    double v = x > 40 ? 40 : x < -40 ? -40 : x;
    if (g.order == 0) return 0.5 * erfc(-v * M_SQRT1_2) + v * DENSITY * exp(-0.5 * v * v);
    double u = A * (v + C * v * v * v), s = logistic(u);
    return s + v * s * logistic(-u) * A * (1 + 3 * C * v * v);
}
BLOCK(gelu_derivative, 1)

INLINE double
pow_one(double x, double z, struct given g)
{
    UNUSED(g);
    return pow(zero_keeps_sign(x), zero_keeps_sign(z));
}
BLOCK(pow, 2)

/* ---- powers of floats: accurate to 2^-37, so that the error after rounding to f32 is 0.501 units in the last place
 * ---- */

/* Returns log2 a = e + log2 m for a normal a = 2^e m > 0, with sqrt(1/2) <= m < sqrt(2). log2 m is computed as s
 * q(s^2), where s = (m - 1) / (m + 1) and q is a polynomial. */
INLINE double
log2_few(double a)
{
    /* root: the bits of sqrt(1/2); digits: mask of the fraction bits. */
    const uint64_t root = 0x3fe6a09e667f3bcd, digits = (UINT64_C(1) << 52) - 1;
    uint64_t u = bits_of_double(a) - root + (UINT64_C(1024) << 52);
    double e = double_of(u >> 52 | bits_of_double(0x1p52)) - (0x1p52 + 1024);
    double m = double_of((u & digits) + root), s = (m - 1) / (m + 1), w = s * s;
    double q = 0.2829066165906811;
    q = fma(q, w, 0.3199053739227617);
    q = fma(q, w, 0.412209256786155);
    q = fma(q, w, 0.5770779423594591);
    q = fma(q, w, 0.9617966941132127);
    q = fma(q, w, 2.88539008177785);
    return fma(s, q, e);
}

/* Returns 2^t = 2^n 2^r for |t| <= 1000, where n is an integer and |r| <= 1/2; NaN for NaN. */
INLINE double
exp2_few(double t)
{
    double whole = t + 0x1.8p52, r = t - (whole - 0x1.8p52);
    double p = 1.3255240797206966e-06;
    p = fma(p, r, 1.531010238038351e-05);
    p = fma(p, r, 0.00015403455792749644);
    p = fma(p, r, 0.0013333450481819327);
    p = fma(p, r, 0.009618129159464759);
    p = fma(p, r, 0.05550410941295717);
    p = fma(p, r, 0.24022650695812833);
    p = fma(p, r, 0.693147180545911);
    p = fma(p, r, 1.0);
    return double_of(bits_of_double(p) + (bits_of_double(whole) << 52));
}

/* Returns a^b. Clamps the exponent of the result to 300, beyond which a float is infinite or 0. Handles the special
 * cases as pow() does. */
INLINE double
power_of_floats(double x, double z)
{
    double a = fabs(x), t = z * log2_few(a), half = z * 0.5;
    double y = exp2_few(t > 300 ? 300 : t < -300 ? -300 : t);
    bool whole = rint(z) == z, odd = whole & (rint(half) != half), end = (a == 0) | (a == INFINITY);
    y = end & (z == z) ? ((a == 0) == (z < 0) ? INFINITY : 0) : y;
    y = a == 1 ? 1 : y;
    y = odd ? copysign(y, x) : y;
    y = (x < 0) & !whole & (a != INFINITY) ? NAN : y;
    y = x != x ? x : y;
    return z == 0 ? 1 : y;
}

INLINE double
pow_few_one(double x, double z, struct given g)
{
    UNUSED(g);
    return power_of_floats(x, z);
}
BLOCK(pow_few, 2)

static block_f64 f64_lowered_few;

INLINE double
lowered_few_one(double x, double z, struct given g)
{
    return power_of_floats(x, z - (double)g.order);
}
BLOCK(lowered_few, 2)

static block_f64 f64_lowered;

INLINE double
lowered_one(double x, double z, struct given g)
{
    return pow(zero_keeps_sign(x), z - (double)g.order);
}
BLOCK(lowered, 2)

/* Multiplies y by z (z - 1) ... (z - order + 1), the factor that the derivative of a power has. Where this factor is
 * 0, sets y to 0, even if y is infinite or NaN. */
VECTOR static void
times_falling(int64_t n, int64_t order, const double *z, double *y)
{
    enum { PIECE = 256 };
    double factor[PIECE];
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t m = MIN(n - i, PIECE);
        for (int64_t j = 0; j < m; j++) factor[j] = 1;
        for (int64_t k = 0; k < order; k++)
            for (int64_t j = 0; j < m; j++) factor[j] *= z[i + j] - (double)k;
        for (int64_t j = 0; j < m; j++) y[i + j] = factor[j] == 0 ? 0 : factor[j] * y[i + j];
    }
}

void
f64_pow_derivative(const struct call *c, int64_t n, const double *const *x, double *y)
{
    f64_lowered(c, n, x, y);
    times_falling(n, c->attr[0].i, x[1], y);
}

void
f64_pow_derivative_few(const struct call *c, int64_t n, const double *const *x, double *y)
{
    f64_lowered_few(c, n, x, y);
    times_falling(n, c->attr[0].i, x[1], y);
}

void
vec_exp_f64(int64_t n, const double *x, double *y)
{
    static const struct call none;
    f64_exp(&none, n, (const double *const[]){x}, y);
}

VECTOR static void
widen_floats(int64_t n, const float *x, double *y)
{
    for (int64_t i = 0; i < n; i++) y[i] = x[i];
}

VECTOR static void
narrow_to_float(int64_t n, const double *x, float *y)
{
    for (int64_t i = 0; i < n; i++) y[i] = (float)x[i];
}

void
f32_by_f64(block_f64 *f, const struct call *c, int64_t n, int narg, const float *const *x, float *y)
{
    enum { SOME = 256, MOST = 2 };
    double from[MOST][SOME], to[SOME];
    const double *at[MOST] = {from[0], from[1]};
    assert(narg <= MOST);
    for (int64_t i = 0; i < n; i += SOME) {
        int64_t m = MIN(n - i, SOME);
        for (int k = 0; k < narg; k++) widen_floats(m, x[k] + i, from[k]);
        f(c, m, at, to);
        narrow_to_float(m, to, y + i);
    }
}
