/* exp_pairs.c - sums of exponentials in pairs of doubles.
 *
 * e^t = 2^k ((1 + p)^2)^2..., where p = e^(r / 16) - 1 is computed by its series, with pairs for the first terms and
 * doubles for the others. Sums (Knuth 1969) and products (by fma) include their rounding errors; products of two
 * rounding errors are omitted. For fewer digits e^t = 2^k e^r, with pairs for 1, r and r^2 / 2 of the series. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/rows/exp_pairs.h"

#include "runtime/base/simd.h"
#include "runtime/base/stop.h"

#include <math.h>

enum { BLOCK = 1024, LANES = 8 };

struct pair {
    double high, low;
};

#define LOG2E 1.4426950408889634
#define WHOLE 0x1.8p52 /* adding it rounds to an integer */
/* ln 2 as two parts of 40 digits, whose products with integers are exact, and a rest. */
#define LN2_A 0x1.62e42fefa2p-1
#define LN2_B 0x1.9ef35793c6p-41
#define LN2_C 0x1.673007e5ed5e8p-81

INLINE struct pair
sum_of_two(double a, double b)
{
    double sum = a + b, less = sum - a;
    return (struct pair){sum, (a - (sum - less)) + (b - less)};
}

/* Adds exactly if a is the larger one. */
INLINE struct pair
sum_below(double a, double b)
{
    double sum = a + b;
    return (struct pair){sum, b - (sum - a)};
}

INLINE struct pair
pair_product(struct pair a, struct pair b)
{
    double high = a.high * b.high;
    return (struct pair){high, fma(a.high, b.high, -high) + (a.high * b.low + a.low * b.high)};
}

/* Returns c + a b, if c is the largest. */
INLINE struct pair
pair_horner(struct pair a, struct pair b, double c, double c_low)
{
    struct pair p = pair_product(a, b), sum = sum_below(c, p.high);
    return (struct pair){sum.high, sum.low + (p.low + c_low)};
}

/* 2^k */
INLINE double
power(double k)
{
    double shifted = k + (WHOLE + 1023), result;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits <<= 52;
    memcpy(&result, &bits, sizeof result);
    return result;
}

/* Returns e^(x - y); below e^-700 possibly e^-700. */
INLINE struct pair
exponential(double x, double y)
{
    x = x > y - 700 ? x : y - 700;
    struct pair t = sum_of_two(x, -y);
    double k = t.high * LOG2E + WHOLE - WHOLE;
    struct pair r = sum_of_two(t.high - k * LN2_A, -k * LN2_B);
    r = sum_below(r.high, r.low + (t.low - k * LN2_C));
    r.high *= 0.0625;
    r.low *= 0.0625;
    double u = r.high, rest = 0x1.6124613a86d09p-33; /* 1 / 13! */
    rest = 0x1.1eed8eff8d898p-29 + u * rest;
    rest = 0x1.ae64567f544e4p-26 + u * rest;
    rest = 0x1.27e4fb7789f5cp-22 + u * rest;
    rest = 0x1.71de3a556c734p-19 + u * rest;
    rest = 0x1.a01a01a01a01ap-16 + u * rest;
    rest = 0x1.a01a01a01a01ap-13 + u * rest;
    struct pair p = {rest, 0};
    p = pair_horner(r, p, 0x1.6c16c16c16c17p-10, -0x1.f49f49f49f49fp-65);
    p = pair_horner(r, p, 0x1.1111111111111p-7, 0x1.1111111111111p-63);
    p = pair_horner(r, p, 0x1.5555555555555p-5, 0x1.5555555555555p-59);
    p = pair_horner(r, p, 0x1.5555555555555p-3, 0x1.5555555555555p-57);
    p = pair_horner(r, p, 0.5, 0);
    p = pair_product(r, p);
    p = pair_horner(r, p, r.high, r.low);
    for (int i = 0; i < 4; i++) /* (1 + p)^2 - 1 */
        p = pair_horner(p, p, 2 * p.high, 2 * p.low);
    struct pair e = sum_below(1, p.high);
    double scale = power(k);
    return (struct pair){scale * e.high, scale * (e.low + p.low)};
}

/* Rounds y to a multiple of 2^-20, which adds exactly with multiples of LN2_A. */
INLINE double
base_of(double y)
{
    const double whole = WHOLE * 0x1p-20;
    return y + whole - whole;
}

/* Returns e^(x - base), below 2, with a relative error of 2^-59; high is a multiple of 2^-50, so that sums below 8
 * are exact. */
INLINE struct pair
near_exponential(double x, double base)
{
    x = x > base - 700 ? x : base - 700;
    double k = fma(x - base, LOG2E, WHOLE) - WHOLE;
    struct pair r = sum_of_two(x, -fma(k, LN2_A, base));
    r.low = fma(-k, LN2_B, r.low);
    double u = r.high, square = u * u, lacks = fma(u, u, -square);
    double rest = 0x1.93974a8c07c9dp-37; /* 1 / 14! */
    rest = fma(u, rest, 0x1.6124613a86d09p-33);
    rest = fma(u, rest, 0x1.1eed8eff8d898p-29);
    rest = fma(u, rest, 0x1.ae64567f544e4p-26);
    rest = fma(u, rest, 0x1.27e4fb7789f5cp-22);
    rest = fma(u, rest, 0x1.71de3a556c734p-19);
    rest = fma(u, rest, 0x1.a01a01a01a01ap-16);
    rest = fma(u, rest, 0x1.a01a01a01a01ap-13);
    rest = fma(u, rest, 0x1.6c16c16c16c17p-10);
    rest = fma(u, rest, 0x1.1111111111111p-7);
    rest = fma(u, rest, 0x1.5555555555555p-5);
    rest = fma(u, rest, 0x1.5555555555555p-3);
    double others = u * square * rest;
    struct pair first = sum_below(1, u), e = sum_below(first.high, 0.5 * square);
    double low = (first.low + e.low) + fma(0.5, lacks, fma(r.low, e.high + others, others));
    double scale = power(k), high = scale * e.high, whole = high + 6 - 6;
    return (struct pair){whole, fma(scale, low, high - whole)};
}

VECTOR static void
near_exponentials(int64_t n, const double *x, double base, double *high, double *low)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        struct pair e = near_exponential(x[i], base);
        high[i] = e.high;
        low[i] = e.low;
    }
}

/* Returns base + log (1 + d) for d < 2^-17. */
INLINE double
near_base(double base, double d)
{
    return base + (d - d * d * (0.5 - d * (1.0 / 3)));
}

VECTOR void
exp_pairs_log_cols(int64_t n, const double *x, double *y)
{
    double high[EXP_COLS] = {0}, low[EXP_COLS] = {0}, base[EXP_COLS];
    for (int l = 0; l < EXP_COLS; l++) base[l] = base_of(y[l]);
    for (int64_t i = 0; i < n; i++)
        for (int l = 0; l < EXP_COLS; l++) {
            struct pair e = near_exponential(x[i * EXP_COLS + l], base[l]);
            high[l] += e.high;
            low[l] += e.low;
        }
    for (int l = 0; l < EXP_COLS; l++) y[l] = near_base(base[l], high[l] - 1 + low[l]);
}
EXPORTED(exp_pairs_log_cols)

VECTOR static void
exponentials(int64_t n, const double *x, double y, double *high, double *low)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        struct pair e = exponential(x[i], y);
        high[i] = e.high;
        low[i] = e.low;
    }
}

/* Adds n / LANES pairs to each lane's sum. */
VECTOR static void
add_up_pairs(int64_t n, const double *high, const double *low, double *sum, double *lack)
{
    for (int64_t i = 0; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            struct pair s = sum_of_two(sum[l], high[i + l]);
            sum[l] = s.high;
            lack[l] += s.low + low[i + l];
        }
}

VECTOR static int64_t
exp_pair_units(int64_t n, const double *high, const double *low)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double turns = high[i] * 0x1p44, part = turns - (turns + WHOLE - WHOLE); /* of 2^32 units */
        sum += (int64_t)(part * 0x1p32 + low[i] * 0x1p76 + WHOLE - WHOLE);
    }
    return sum;
}

/* Converts a sum below 8 likewise to units of 2^-80, in two parts. */
VECTOR static uint64_t
units_in_two(int64_t n, const double *high, const double *low)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double whole = high[i] * 0x1p49 + WHOLE - WHOLE, rest = high[i] - whole * 0x1p-49;
        sum += ((uint64_t)(int64_t)whole << 31) + (uint64_t)(int64_t)(rest * 0x1p80 + low[i] * 0x1p80 + WHOLE - WHOLE);
    }
    return sum;
}

/* Loads at most a block of elements from `from` on as doubles. Pads to a multiple of LANES with -infinity, which
 * also replaces elements above `most`. Returns the number of elements. */
static int64_t
load_doubles(enum dtype d, int64_t n, const void *x, int64_t from, double most, double *to)
{
    int64_t some = MIN(n - from, BLOCK), i = 0;
    for (; i < some; i++) {
        double v = d == DT_F64 ? ((const double *)x)[from + i] : (double)((const float *)x)[from + i];
        to[i] = v <= most ? v : -INFINITY;
    }
    for (; i % LANES; i++) to[i] = -INFINITY;
    return i;
}

/* Sums n / LANES exponentials per lane into the lane's sum. */
VECTOR static void
add_to_lanes(int64_t n, const double *high, const double *low, double *sum, double *lack)
{
    for (int64_t i = 0; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            sum[l] += high[i + l];
            lack[l] += low[i + l];
        }
}

double
exp_pairs_log(enum dtype d, int64_t n, const void *x, double y)
{
    double at[BLOCK], high[BLOCK], low[BLOCK], sum[LANES] = {0}, lack[LANES] = {0}, base = base_of(y);
    for (int64_t from = 0; from < n && stop_passes(from); from += BLOCK) {
        int64_t some = load_doubles(d, n, x, from, INFINITY, at);
        near_exponentials(some, at, base, high, low);
        add_to_lanes(some, high, low, sum, lack);
    }
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) {
            sum[l] += sum[l + half];
            lack[l] += lack[l + half];
        }
    return near_base(base, sum[0] - 1 + lack[0]);
}

double
exp_pairs_left(enum dtype d, int64_t n, const void *x, double y)
{
    double at[BLOCK], high[BLOCK], low[BLOCK], sum[LANES] = {-1}, lack[LANES] = {0};
    for (int64_t from = 0; from < n && stop_passes(from); from += BLOCK) {
        int64_t some = load_doubles(d, n, x, from, INFINITY, at);
        exponentials(some, at, y, high, low);
        add_up_pairs(some, high, low, sum, lack);
    }
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) {
            struct pair s = sum_of_two(sum[l], sum[l + half]);
            sum[l] = s.high;
            lack[l] += s.low + lack[l + half];
        }
    return sum[0] + lack[0];
}

int32_t
exp_pairs_units(enum dtype d, int64_t n, const void *x)
{
    double at[BLOCK], high[BLOCK], low[BLOCK];
    uint64_t sum = 0;
    for (int64_t from = 0; from < n && stop_passes(from); from += BLOCK) {
        int64_t some = load_doubles(d, n, x, from, 1, at);
        exponentials(some, at, 0, high, low);
        sum += (uint64_t)exp_pair_units(some, high, low);
    }
    return (int32_t)(uint32_t)sum;
}

int64_t
exp_pairs_units_at(int64_t n, const double *x, double y)
{
    double at[BLOCK], high[BLOCK], low[BLOCK];
    uint64_t sum = 0;
    for (int64_t from = 0; from < n && stop_passes(from); from += BLOCK) {
        int64_t some = load_doubles(DT_F64, n, x, from, y + 1, at);
        exponentials(some, at, y, high, low);
        sum += units_in_two(some, high, low);
    }
    return (int64_t)sum;
}
