/* rng.c - tests Philox4x32-10 against its authors' known answers, and the distributions drawn from it. */
#include "runtime/data/rng.h"
#include "t/lib/tap.h"

#define PAIR(lo, hi) ((uint64_t)(hi) << 32 | (lo))

/* Known answers (kat_vectors of Random123 1.x): counter words 0 to 3, key words 0 and 1, result. */
static const struct {
    uint32_t counter[4], key[2], want[4];
} vectors[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static void
test_vectors(void)
{
    for (size_t i = 0; i < countof(vectors); i++) {
        const uint32_t *c = vectors[i].counter;
        uint32_t got[4];
        philox(PAIR(vectors[i].key[0], vectors[i].key[1]), PAIR(c[2], c[3]), PAIR(c[0], c[1]), got);
        ok(!memcmp(got, vectors[i].want, sizeof got), "Philox4x32-10 gives the known answer %zu", i);
    }
}

/* Checks that a statistic is within five standard deviations of its expected value. With random seeds, a correct
 * generator would fail one run in millions; seeds are fixed, so the outcome never changes. */
static void
near(double got, double want, double deviation, const char *name)
{
    if (!ok(fabs(got - want) < 5 * deviation, "%s", name)) diag("got %.6f, want %.6f +- %.6f", got, want, deviation);
}

static void
test_uniform(uint64_t key, int digits)
{
    enum { DRAWS = 100000, BINS = 16 };
    double sum = 0, lag = 0, last = 0;
    int bin[BINS] = {0}, outside = 0;
    for (int i = 0; i < DRAWS; i++) {
        double u = rng_uniform(key, 0, (uint64_t)i, digits);
        if (!(u >= 0 && u < 1))
            outside++;
        else
            bin[(int)(u * BINS)]++;
        sum += u;
        lag += (u - 0.5) * (last - 0.5);
        last = u;
    }
    ok(outside == 0, "uniform values of %d digits lie in [0, 1)", digits);
    near(sum / DRAWS, 0.5 - ldexp(0.5, -digits), sqrt(1.0 / 12 / DRAWS),
         "uniform values have mean 1/2, less half a unit of the last digit");
    near(lag / DRAWS, 0, 1.0 / 12 / sqrt(DRAWS), "neighbouring uniform values are uncorrelated");
    double chi2 = 0, each = (double)DRAWS / BINS;
    for (int b = 0; b < BINS; b++) chi2 += (bin[b] - each) * (bin[b] - each) / each;
    near(chi2, BINS - 1, sqrt(2.0 * (BINS - 1)), "uniform values fill sixteen bins evenly");
}

static void
test_normal(uint64_t key, bool f64)
{
    enum { DRAWS = 100000 };
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0, lag = 0, square = 0, last = 0;
    for (int i = 0; i < DRAWS; i++) {
        double z = f64 ? rng_normal_f64(key, 0, (uint64_t)i) : rng_normal(key, 0, (uint64_t)i);
        m1 += z, m2 += z * z, m3 += z * z * z, m4 += z * z * z * z;
        lag += z * last, square += (z * z - 1) * (last * last - 1), last = z;
    }
    near(m1 / DRAWS, 0, sqrt(1.0 / DRAWS), "normal values have mean 0");
    near(m2 / DRAWS, 1, sqrt(2.0 / DRAWS), "normal values have variance 1");
    near(m3 / DRAWS, 0, sqrt(15.0 / DRAWS), "normal values have third moment 0");
    near(m4 / DRAWS, 3, sqrt(96.0 / DRAWS), "normal values have fourth moment 3");
    near(lag / DRAWS, 0, sqrt(1.0 / DRAWS), "neighbouring normal values are uncorrelated");
    near(square / DRAWS, 0, 2 / sqrt(DRAWS), "squares of neighbouring normal values are uncorrelated");
}

static void
test_keys(void)
{
    enum { SIDE = 64 };
    static uint64_t seen[SIDE * SIDE];
    int n = 0, equal = 0;
    for (uint64_t seed = 0; seed < SIDE; seed++)
        for (uint64_t ordinal = 0; ordinal < SIDE; ordinal++) seen[n++] = rng_key(seed, ordinal);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) equal += seen[i] == seen[j];
    is_int(equal, 0, "every pair of a small seed and ordinal has a different key");
    ok(rng_bits(1, 0, 5) == rng_bits(1, 0, 5), "a value depends only on key, micro-batch and position");
    ok(rng_bits(1, 0, 5) != rng_bits(1, 1, 5) && rng_bits(1, 0, 5) != rng_bits(2, 0, 5) &&
           rng_bits(1, 0, 5) != rng_bits(1, 0, 6),
       "a value depends on each of key, micro-batch and position");
}

/* Checks each function that draws numbers against a direct computation from Philox words. */
static void
test_words(void)
{
    uint64_t key = rng_key(7, 2);
    int wrong = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        uint32_t four[4], two[4];
        philox(key, 9, i / 4, four);
        philox(key, 9, i / 2, two);
        uint64_t bits = (uint64_t)two[i % 2 * 2 + 1] << 32 | two[i % 2 * 2];
        wrong += rng_word(key, 9, i) != four[i % 4] || rng_bits(key, 9, i) != bits;
        wrong += rng_uniform(key, 9, i, 24) != (four[i % 4] >> 8) * 0x1p-24;
        wrong += rng_uniform(key, 9, i, 53) != (double)(bits >> 11) * 0x1p-53;
        wrong += rng_uniform(key, 9, i, 8) != floor(rng_uniform(key, 9, i, 24) * 256) / 256;
    }
    is_int(wrong, 0, "element i is word i % 4 of block i / 4, or half a block of two");
}

int
main(void)
{
    test_vectors();
    static const int digits[] = {8, 11, 24, 53};
    for (size_t i = 0; i < countof(digits); i++) test_uniform(rng_key(7, 0), digits[i]);
    for (int f64 = 0; f64 < 2; f64++) test_normal(rng_key(7, 1), f64);
    test_words();
    test_keys();
    return done();
}
