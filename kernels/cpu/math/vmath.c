/* vmath.c - elementary functions on blocks of f32.
 *
 * Each function is branch-free arithmetic and selections on one element, so that the compiler can vectorise it,
 * sixteen elements at a time. The argument is reduced to an interval, exactly or in two parts. Polynomials
 * interpolate at the Chebyshev nodes of an interval, which the comment beside each polynomial names. Fused
 * operations are written as fmaf(), which is exact even on a machine without such an instruction (and slow there),
 * so one build gives the same bits everywhere.
 *
 * Times of elements from cache, one core, ns each:
 *
 *    Xeon (Sapphire Rapids)   exp 0.20, tanh 0.28, log 0.36, erf 0.42
 *    Zen 4                    tanh 0.27, sigmoid 0.31, silu 0.35, erf 0.53
 *    Zen 4                    gelu 0.43, its derivative 0.44, both together 0.53
 *    Zen 4                    tanh approximation of gelu 0.40, its derivative 0.48, both together 0.57
 *
 * A Zen 4 core multiplies once per cycle and adds in parallel, so of two equivalent formulas the one with fewer
 * products is faster. */
#pragma GCC optimize("O3", "no-trapping-math", "schedule-insns")
#include "kernels/cpu/math/vmath.h"

#include "runtime/base/base.h"
#include "runtime/base/simd.h"

#include <math.h>
#include <stdbool.h>

/* Returns the lesser of two non-negative numbers; if one is NaN, the other. Compares the bit patterns as integers,
 * whose order is the same, because one instruction then compares and selects. */
INLINE float
at_most(float a, float most)
{
    return float_of(MIN(bits_of(a), bits_of(most)));
}

/* Rounds x to the nearest integer, for |x| < 2^22: adding 1.5 * 2^23 leaves no bits for a fraction. */
INLINE float
nearest_integer(float x)
{
    return (x + 0x1.8p23f) - 0x1.8p23f;
}

/* Returns e^r - 1 for |r| <= ln 2 / 2. */
INLINE float
exp_less_one(float r)
{
    float q = 0.00139269181f; /* polynomial for (e^r - 1 - r) / r^2 on [-0.35, 0.35] */
    q = fmaf(q, r, 0.00836376702f);
    q = fmaf(q, r, 0.0416665502f);
    q = fmaf(q, r, 0.166665734f);
    q = fmaf(q, r, 0.5f);
    return fmaf(r * r, q, r);
}

/* Returns x - n ln 2. ln 2 is subtracted in two parts, so that the difference is exact enough. */
INLINE float
exp_rest(float x, float n)
{
    return fmaf(n, 2.12194440e-4f, fmaf(n, -0.693359375f, x));
}

/* Returns 2^raise e^x. The result is undefined if x is NaN, or if the result overflows or is subnormal. Adding 1.5 *
 * 2^23 rounds x / ln 2 + raise to an integer, in the low bits of the sum. That integer is then added to the exponent
 * bits of e^r, where r is the remainder of x (exp_rest()). */
INLINE float
exp_raised(float x, float raise)
{
    float whole = fmaf(x, 1.44269504f, 0x1.8p23f + raise), n = whole - (0x1.8p23f + raise);
    return float_of(bits_of(1.0f + exp_less_one(exp_rest(x, n))) + (bits_of(whole) << 23));
}

/* Returns e^x = 2^n e^r, where r is x - n ln 2. |x| is clamped to 105, where the result is 0 or infinity. The result
 * is computed with a factor of 2^64 (x < 0) or 2^-64 and the factor is removed at the end. So results below 2^-126
 * and the transition to infinity are correct. */
INLINE float
exp_one(float x)
{
    float raise = x < 0 ? 64.0f : -64.0f, back = x < 0 ? 0x1p-64f : 0x1p64f;
    float y = exp_raised(copysignf(at_most(fabsf(x), 105.0f), x), raise) * back;
    return x != x ? x : y;
}

/* Returns log x = e ln 2 + log(1 + f), where x = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2). */
INLINE float
log_one(float x)
{
    bool tiny = x < 0x1p-126f;
    float z = tiny ? x * 0x1p23f : x;
    uint32_t u = bits_of(z) - 0x3f3504f3; /* subtracts the bits of sqrt(1/2), so that the exponent field is e */
    float e = (float)((int32_t)u >> 23) - (tiny ? 23.0f : 0.0f);
    float f = float_of((u & 0x007fffff) + 0x3f3504f3) - 1.0f;
    float q = 0.0697161144f; /* polynomial for (log(1 + f) - f + f^2 / 2) / f^3 */
    q = fmaf(q, f, -0.114797338f);
    q = fmaf(q, f, 0.116854199f);
    q = fmaf(q, f, -0.124256873f);
    q = fmaf(q, f, 0.142490576f);
    q = fmaf(q, f, -0.166678023f);
    q = fmaf(q, f, 0.200007157f);
    q = fmaf(q, f, -0.24999997f);
    q = fmaf(q, f, 0.333333312f);
    float ff = f * f, y = f * ff * q + e * -2.12194440e-4f;
    y = f + (y - 0.5f * ff);
    y = y + e * 0.693359375f;
    y = x == 0 ? -INFINITY : y;
    y = x < 0 ? NAN : y;
    return x != x || x == INFINITY ? x : y;
}

/* Returns log(1 + e^x), computed as max(x, 0) + log(1 + t) with t = e^-|x|. log(1 + t) is 2 artanh s with s = t / (t
 * + 2) <= 1/3. It is computed as 2 s + s^3 q(s^2), where q is a polynomial. */
INLINE float
softplus_one(float x)
{
    float t = exp_one(-fabsf(x)), s = t / (t + 2.0f), w = s * s;
    float q = 0.207941428f;
    q = fmaf(q, w, 0.174630746f);
    q = fmaf(q, w, 0.222648516f);
    q = fmaf(q, w, 0.285703003f);
    q = fmaf(q, w, 0.400000095f);
    q = fmaf(q, w, 0.666666687f);
    float y = fmaf(s * w, q, s + s);
    return x > 0 ? x + y : y;
}

/* Returns tanh x, computed as t / (t + 2) with t = e^2x - 1. t is computed as 2^n (e^r - 1) + (2^n - 1) with 2 x = n
 * ln 2 + r, because this form has no cancellation near 0. */
INLINE float
tanh_one(float x)
{
    float a = at_most(2.0f * fabsf(x), 20.0f), whole = fmaf(a, 1.44269504f, 0x1.8p23f), n = whole - 0x1.8p23f;
    float power = float_of((bits_of(whole) << 23) + bits_of(1.0f));
    float t = fmaf(exp_less_one(exp_rest(a, n)), power, power - 1.0f);
    return x != x ? x : copysignf(t / (t + 2.0f), x);
}

/* Returns 1 - e^-r for |r| <= 0.35. Callers compute y e^-r as y - y (1 - e^-r). This keeps rounding errors small,
 * because the second term is small. */
INLINE float
missing(float r)
{
    float q = -0.00139517046f;
    q = fmaf(q, r, 0.00836959006f);
    q = fmaf(q, r, -0.0416661874f);
    q = fmaf(q, r, 0.16666513f);
    q = fmaf(q, r, -0.5f);
    return fmaf(r * r, q, r);
}

/* Returns y 2^p. power: p, shifted to the exponent bits of a float; adding it to the bits of y multiplies y by
 * 2^p. */
INLINE float
times_power_of_two(float y, uint32_t power)
{
    return float_of(bits_of(y) + power);
}

/* A representation of e^-b, where b = a + low, 0 <= b <= 113 and `low` is small: e^-b = 2^-64 (1 - less) 2^p. power:
 * p in the exponent bits of a float; value: 2^64 e^-b. */
struct decay {
    uint32_t power;
    float less, value;
};
INLINE struct decay
decay_of(float a, float low)
{
    float whole = fmaf(a, -1.44269504f, 0x1.8p23f + 64.0f), n = whole - (0x1.8p23f + 64.0f);
    float less = missing(fmaf(n, -2.12194440e-4f, fmaf(n, 0.693359375f, a)) + low);
    uint32_t power = bits_of(whole) << 23;
    return (struct decay){power, less, times_power_of_two(1.0f - less, power)};
}

/* Returns 2^64 e^-b z, with b of struct decay. The argument y is z 2^p. */
INLINE float
decayed(const struct decay *d, float y)
{
    return fmaf(-y, d->less, y);
}

INLINE float
sigmoid_one(float x)
{
    struct decay d = decay_of(at_most(fabsf(x), 110.0f), 0);
    float up = 1.0f / fmaf(d.value, 0x1p-64f, 1.0f), y = times_power_of_two(up, d.power);
    up = x != x ? x : up;
    return x < 0 ? decayed(&d, y) * 0x1p-64f : up;
}

/* Returns erf x for |x| <= 0.6. */
#define ERF_NEAR 0.6f
INLINE float
erf_near(float x)
{
    float u = x * x;
    float q = 0.00451235756f; /* polynomial in x^2 for erf(x) / x, x^2 in [0, 0.36] */
    q = fmaf(q, u, -0.0266469861f);
    q = fmaf(q, u, 0.112809917f);
    q = fmaf(q, u, -0.376125126f);
    q = fmaf(q, u, 1.12837916f);
    return x * q;
}

/* Returns 2^64 e^-x^2 / sqrt(2 pi) for x^2 < 105; the factor 2^64 avoids underflow. The reduced argument r includes
 * the rounding error of x^2. ln 2 is a single float, so the result has an extra factor e^(2.7e-9 x^2). Callers that
 * need precision compensate for this factor. */
INLINE float
exp_minus_square(float x)
{
    const float w = 0.398942280f;
    float square = x * x, rest = fmaf(x, x, -square);
    float whole = fmaf(square, -1.44269504f, 0x1.8p23f + 64.0f), n = whole - (0x1.8p23f + 64.0f);
    float r = fmaf(n, 0.693147182f, square) + rest; /* polynomial for e^-r, scaled, on [-0.35, 0.35] */
    float q = 0.0013843537f * w;
    q = fmaf(q, r, -0.00837425482f * w);
    q = fmaf(q, r, 0.0416680087f * w);
    q = fmaf(q, r, -0.166664301f * w);
    q = fmaf(q, r, 0.499999942f * w);
    q = fmaf(q, r, -w);
    q = fmaf(q, r, w);
    return times_power_of_two(q, bits_of(whole) << 23);
}

/* Returns q / (a q + p), where p and q are polynomials in 0 <= a <= 14.43. Multiplied by e^(-a^2 / 2) / sqrt(2 pi),
 * this is Phi(-a), the normal distribution function, to 9e-8. The coefficients compensate for the extra factor of
 * exp_minus_square(). If a is large, p is a small part of the denominator, so rounding errors of q enter numerator
 * and denominator alike and cancel. The common factor of p and q is chosen so that both are just below a power of
 * two near 0, where errors matter. */
INLINE float
tail_share(float a)
{
    float p = 1.29424977f, q = 1.29531384f;
    p = fmaf(p, a, 11.7542095f);
    p = fmaf(p, a, 46.1151276f);
    p = fmaf(p, a, 94.0651932f);
    q = fmaf(q, a, 11.7099857f);
    q = fmaf(q, a, 49.4019547f);
    q = fmaf(q, a, 111.488655f);
    q = fmaf(q, a, 117.893234f);
    return q / fmaf(a, q, p);
}

INLINE float
erf_one(float x)
{
    float a = fabsf(x), t = at_most(a, 10.2f);
    float far = fmaf(exp_minus_square(t) * -0x1p-63f, tail_share(t * 1.41421356f), 1.0f);
    /* A NaN is passed to erf_near(), because the comparison is false. */
    return a >= ERF_NEAR ? copysignf(far, x) : erf_near(x);
}

/* ---- gelu, silu and their derivatives; the value and the derivative (slope) share the expensive steps ---- */

struct both {
    float y, slope;
};

/* Returns the value of gelu or silu at x. part * decay is the value at -|x|; the value at |x| is greater by |x|. */
INLINE float
less_part(float x, float part, float decay)
{
    return fmaf(part, decay, x < 0 ? 0.0f : x);
}

/* Returns the slope of gelu or silu at x. The slope at -|x| is -part * decay; the slope at |x| is 1 minus that. */
INLINE float
gelu_slope_of(float x, float part, float decay)
{
    part = x != x ? x : part;
    return fmaf(part, x < 0 ? -decay : decay, x < 0 ? 0.0f : 1.0f);
}

/* Computes gelu and its slope, x Phi(x) and Phi(x) + x phi(x), where phi is the normal density and Phi its integral.
 * Both are 0 below -14.6.
 *
 * With a = |x|, e^(-a^2 / 2) is 2^n e^(-r / 2), where r = a^2 + n ln 4. ln 4 is split into 15 bits and a rest, so
 * that n times the 15 bits is exact and a^2 is not rounded.
 *
 * Phi(-a) is e^(-a^2 / 2) times share / UP, to 2.1e-8, where share is under / (a (2.506632 under / UP + more) +
 * 1.99). `under` and `more` are polynomials in a, and 2.506632 is sqrt(2 pi). If a is large, rounding errors of
 * `under` enter numerator and denominator alike and cancel, because the other terms are a small part of the
 * denominator. The common factor of numerator and denominator, and the last digits of all coefficients, are the best
 * of thousands tried: they give the least accumulated rounding error.
 *
 * `under` and `share` are scaled by UP = 2^64, against underflow for large a; `decay` is scaled by 1 / UP. */
#define LN4      (22713.0f / 16384.0f)
#define LN4_REST 2.85721364e-6f
#define UP       0x1p64f
INLINE struct both
gelu_both(float x)
{
    float a = at_most(fabsf(x), 14.6f), square = a * a, whole = fmaf(square, -0.72134752f, 0x1.8p23f);
    float r = fmaf(square, -LN4_REST / LN4, fmaf(a, a, fmaf(whole, LN4, -0x1.8p23f * LN4)));
    /* polynomial in r for -e^(-c r / 2) / UP, where c = 1 + LN4_REST / LN4 and |r| <= 0.694 */
    float decay = -2.17716552e-5f / UP;
    decay = fmaf(decay, r, 2.61540263e-4f / UP);
    decay = fmaf(decay, r, -2.60417513e-3f / UP);
    decay = fmaf(decay, r, 2.08332632e-2f / UP);
    decay = fmaf(decay, r, -0.125000536f / UP);
    decay = fmaf(decay, r, 0.500001013f / UP);
    decay = fmaf(decay, r, -1 / UP);
    float under = UP * 0.0101304455f, more = 0.0253255647f;
    under = fmaf(under, a, UP * 0.0935787261f);
    under = fmaf(under, a, UP * 0.401787311f);
    under = fmaf(under, a, UP * 0.921399474f);
    under = fmaf(under, a, UP * 0.995143652f);
    more = fmaf(more, a, 0.236192256f);
    more = fmaf(more, a, 0.936362803f);
    float share = under / fmaf(a, fmaf(under, 2.50663209f / UP, more), 1.99028718f);
    uint32_t power = bits_of(whole) << 23;
    float part = a * times_power_of_two(share, power),
          slope = times_power_of_two(fmaf(a, UP * -0.398942280f, share), power);
    return (struct both){less_part(x, part, decay), gelu_slope_of(x, slope, decay)};
}

/* Computes the tanh approximation of gelu and its slope: x / 2 (1 + tanh u) = x s(v) and s + x s (1 - s) v'. Here u
 * = sqrt(2 / pi) (x + 0.044715 x^3), v = 2 u, and s is the logistic function. Both are 0 below -11. |x| s(-|v|) is x
 * minus the value if x >= 0, and minus the value if x < 0. */
#define GELU_LINEAR 1.59576912f /* factors in v = x (GELU_LINEAR + GELU_CUBIC x^2) */
#define GELU_CUBIC  0.0713548163f
INLINE struct both
gelu_tanh_both(float x)
{
    float a = at_most(fabsf(x), 11.0f), square = a * a, w = fmaf(square, GELU_CUBIC, GELU_LINEAR), v = a * w;
    struct decay d = decay_of(v, fmaf(a, w, -v));
    float up = 1.0f / fmaf(d.value, 0x1p-64f, 1.0f), low = times_power_of_two(up, d.power);
    float slope = low * fmaf(-a * up, fmaf(square, 3 * GELU_CUBIC, GELU_LINEAR), 1.0f);
    return (struct both){less_part(x, decayed(&d, a * low), -1 / UP), gelu_slope_of(x, decayed(&d, slope), -1 / UP)};
}

INLINE float
gelu_one(float x)
{
    return gelu_both(x).y;
}
INLINE float
gelu_derivative_one(float x)
{
    return gelu_both(x).slope;
}
INLINE float
gelu_tanh_one(float x)
{
    return gelu_tanh_both(x).y;
}
INLINE float
gelu_tanh_derivative_one(float x)
{
    return gelu_tanh_both(x).slope;
}

/* Computes silu and its slope, x s(x) and s + x s (1 - s), as gelu_tanh_both() does; s is the logistic function.
 * Both are 0 below -110. */
INLINE struct both
silu_both(float x)
{
    float a = at_most(fabsf(x), 110.0f);
    struct decay d = decay_of(a, 0);
    float up = 1.0f / fmaf(d.value, 0x1p-64f, 1.0f), low = times_power_of_two(up, d.power);
    float slope = low * fmaf(-a, up, 1.0f);
    return (struct both){less_part(x, decayed(&d, a * low), -1 / UP), gelu_slope_of(x, decayed(&d, slope), -1 / UP)};
}
INLINE float
silu_one(float x)
{
    return silu_both(x).y;
}
INLINE float
silu_derivative_one(float x)
{
    return silu_both(x).slope;
}

/* Returns sin x (quarter 0) or cos x (quarter 1) for |x| < FAR. x is reduced to r = x - k pi / 2, where pi / 2 is
 * subtracted in three parts. */
#define FAR 8192.0f
INLINE float
sin_one(float x, int32_t quarter)
{
    float k = nearest_integer(x * 0.636619772f);
    float r = ((x - k * 1.5703125f) - k * 4.83751297e-4f) - k * 7.54978942e-8f;
    float u = r * r;
    float s = r + r * u * ((-0.000195878706f * u + 0.00833274818f) * u + -0.166666647f);
    float c = 1.0f - 0.5f * u + u * u * ((2.45479217e-05f * u + -0.00138883029f) * u + 0.0416666647f);
    int32_t q = (int32_t)k + quarter;
    float y = q & 1 ? c : s;
    return q & 2 ? -y : y;
}

/* ---- blocks ---- */

/* Defines vec_NAME, which computes two elements per iteration, half a block apart. The compiler interleaves their
 * instructions (schedule-insns), which hides latencies. y may be x. */
#define BLOCK(name)                                                                                                    \
    VECTOR void vec_##name(int64_t n, const float *x, float *y)                                                        \
    {                                                                                                                  \
        int64_t half = n / 32 * 16;                                                                                    \
        INDEPENDENT                                                                                                    \
        for (int64_t i = 0; i < half; i++) {                                                                           \
            float a = name##_one(x[i]), b = name##_one(x[i + half]);                                                   \
            y[i] = a;                                                                                                  \
            y[i + half] = b;                                                                                           \
        }                                                                                                              \
        for (int64_t i = 2 * half; i < n; i++) y[i] = name##_one(x[i]);                                                \
    }                                                                                                                  \
    EXPORTED(vec_##name)
BLOCK(exp)
BLOCK(log)
BLOCK(tanh)
BLOCK(softplus)
BLOCK(sigmoid)
BLOCK(silu)
BLOCK(silu_derivative)
BLOCK(erf)
BLOCK(gelu_tanh)
BLOCK(gelu_tanh_derivative)

/* Defines vec_NAME for functions that need all registers: one element per iteration, with instructions in source
 * order. In clang no attribute keeps that order. */
#ifdef __clang__
#define IN_ORDER
#else
#define IN_ORDER __attribute__((optimize("no-schedule-insns")))
#endif
#define LINE(name)                                                                                                     \
    IN_ORDER VECTOR void vec_##name(int64_t n, const float *x, float *y)                                               \
    {                                                                                                                  \
        INDEPENDENT                                                                                                    \
        for (int64_t i = 0; i < n; i++) y[i] = name##_one(x[i]);                                                       \
    }                                                                                                                  \
    EXPORTED(vec_##name)
LINE(gelu)
LINE(gelu_derivative)

/* Defines functions that compute value and slope, two elements per iteration. */
#define BOTH(name)                                                                                                     \
    VECTOR void vec_##name(int64_t n, const float *x, float *y, float *slope)                                          \
    {                                                                                                                  \
        int64_t half = n / 32 * 16;                                                                                    \
        INDEPENDENT                                                                                                    \
        for (int64_t i = 0; i < half; i++) {                                                                           \
            struct both a = name(x[i]), b = name(x[i + half]);                                                         \
            y[i] = a.y;                                                                                                \
            y[i + half] = b.y;                                                                                         \
            slope[i] = a.slope;                                                                                        \
            slope[i + half] = b.slope;                                                                                 \
        }                                                                                                              \
        for (int64_t i = 2 * half; i < n; i++) {                                                                       \
            struct both a = name(x[i]);                                                                                \
            y[i] = a.y;                                                                                                \
            slope[i] = a.slope;                                                                                        \
        }                                                                                                              \
    }                                                                                                                  \
    EXPORTED(vec_##name)
BOTH(gelu_both)
BOTH(gelu_tanh_both)
BOTH(silu_both)

/* Returns true if an argument is so large that the reduction is inexact, because k times a part of pi / 2 has too
 * many digits. */
VECTOR static bool
any_far(int64_t n, const float *x)
{
    int32_t far = 0;
    for (int64_t i = 0; i < n; i++) far |= !(fabsf(x[i]) < FAR);
    return far;
}

VECTOR static void
sin_quarter_turn(int64_t n, const float *x, float *y, int32_t quarter)
{
    for (int64_t i = 0; i < n; i++) y[i] = sin_one(x[i], quarter);
}

void
vec_sin(int64_t n, const float *x, float *y)
{
    if (!any_far(n, x)) {
        sin_quarter_turn(n, x, y, 0);
        return;
    }
    for (int64_t i = 0; i < n; i++) y[i] = sinf(x[i]);
}

void
vec_cos(int64_t n, const float *x, float *y)
{
    if (!any_far(n, x)) {
        sin_quarter_turn(n, x, y, 1);
        return;
    }
    for (int64_t i = 0; i < n; i++) y[i] = cosf(x[i]);
}
