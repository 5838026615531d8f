/* moments.c - tests the precision of the codes by which ranks exchange mean and variance of their shards of a row
 * (kernels/op/lib/moments.h).
 *
 * The test tries numbers and scales of all float magnitudes, whose ratio is near or far from 1, and zeros,
 * infinities and NaN. It also checks moments_range for up to 4096 parts. */
#include "kernels/op/lib/moments.h"
#include "t/lib/tap.h"

struct code {
    double number, scale;
};

static struct code
through(double number, double scale, int bytes, int range)
{
    uint8_t code[TOLD_BYTES];
    for (int k = 0; k < bytes; k++) code[k] = (uint8_t)moments_byte(number, scale, bytes, range, k);
    return (struct code){moments_number(code, bytes, range), moments_scale(code)};
}

/* Compares coded and decoded numbers with the exact numbers. An error is divided by the larger of the scale and
 * |number| / 2^range. */
static void
try_codes(int bytes, int range)
{
    double worst_number = 0, worst_scale = 0;
    int wrong = 0;
    for (int e = -124; e <= 126; e++)
        for (int d = -150; d <= 150; d++)
            for (int m = 0; m < 4; m++) {
                double scale = ldexp(1 + m * 0.33, e), number = ldexp(m & 1 ? 1.7 : -1.0001, e + d);
                double unit = fmax(fmax(scale, fabs(number) / ldexp(1, range)), ldexp(1, -126));
                struct code c = through(number, scale, bytes, range);
                if (fabs(number) >= ldexp(1, 128 + range)) {
                    wrong += !isnan(c.number) || !isnan(c.scale);
                    continue;
                }
                worst_number = fmax(worst_number, fabs(c.number - number) / unit);
                worst_scale = fmax(worst_scale, fabs(c.scale - scale) / unit);
            }
    double step = ldexp(1, range + 1 - (8 * (bytes - 1) - 23));
    if (!ok(worst_number <= 2 * step && worst_scale <= ldexp(1, -22),
            "codes of %d bytes, numbers up to 2^%d scales: both are decoded within the bound", bytes, range))
        diag("numbers off by %g scales, scales by %g", worst_number, worst_scale);
    ok(wrong == 0, "numbers too large for floats are decoded as NaN");
}

static void
try_odd(void)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY};
    int wrong = 0;
    for (size_t i = 0; i < countof(odd); i++) {
        struct code a = through(odd[i], 1, TOLD_BYTES, TOLD_RANGE), b = through(1, fabs(odd[i]), JOINED_BYTES, 1);
        wrong += !isnan(a.number) || !isnan(a.scale) || !isnan(b.number) || !isnan(b.scale);
    }
    ok(wrong == 0, "if one of number and scale is NaN or infinite, both are decoded as NaN");
    struct code zero = through(0, 0, TOLD_BYTES, TOLD_RANGE);
    ok(zero.number == 0 && zero.scale == 0, "zeros are decoded exactly");
    for (int e = -126; e < 128; e += 2) {
        struct code whole = through(ldexp((float)16777215 / (1 << 23), e), 0, TOLD_BYTES, TOLD_RANGE);
        wrong += whole.number != ldexp((float)16777215 / (1 << 23), e) || whole.scale != 0;
    }
    ok(wrong == 0, "a float with scale 0 is decoded exactly");
}

int
main(void)
{
    try_codes(TOLD_BYTES, TOLD_RANGE);
    for (int range = 0; range <= 8; range++) try_codes(JOINED_BYTES, range);
    try_odd();
    for (int64_t parts = 1; parts <= 4096; parts++) {
        int range = moments_range(parts);
        if ((1ll << 2 * range) < parts || (range && (1ll << 2 * (range - 1)) >= parts))
            ok(false, "the range of %lld parts is minimal", (long long)parts);
    }
    return done();
}
