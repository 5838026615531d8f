/* blocks.c - tests matrix products with block-quantised weights (kernels/cpu/layers/blocks.c).
 *
 * On every CPU level of this machine, a product must equal the product with the decoded weights, for all row lengths
 * up to 5 blocks, and for numbers of all magnitudes. */
#include "kernels/cpu/layers/blocks.c"

#include "runtime/data/rng.h"
#include "runtime/tensor/half.h"
#include "t/lib/tap.h"

#include <float.h>

enum { BLOCKS = 5, BYTES = 210 };

static uint64_t noise = 1;
static uint8_t weights[STREAMS][BLOCKS * BYTES];
static float elements[BLOCKS * MOST], sums[BLOCKS * MOST / 32], scales[BLOCKS];
static int16_t high[BLOCKS * MOST], low[BLOCKS * MOST];

/* Positions of the f16 scales in a block, bytes; -1: none. */
static const struct {
    const char *name;
    int scale[2];
} kinds[] = {{"Q8_0", {0, -1}}, {"Q4_0", {0, -1}}, {"Q4_K", {0, 2}}, {"Q6_K", {208, -1}}};

/* Fills the weights with random bytes. Their scales are from 2^-10 to 1. */
static void
fill_weights(const struct coding *c, const int *scale)
{
    for (int s = 0; s < STREAMS; s++)
        for (int i = 0; i < BLOCKS * c->bytes; i++) weights[s][i] = (uint8_t)next_random(&noise);
    for (int s = 0; s < STREAMS; s++)
        for (int b = 0; b < BLOCKS; b++)
            for (int k = 0; k < 2 && scale[k] >= 0; k++) {
                uint16_t h =
                    to_f16(ldexpf(1 + (float)(next_random(&noise) % 64) / 64, -(int)(next_random(&noise) % 10) - 1));
                memcpy(weights[s] + b * c->bytes + scale[k], &h, sizeof h);
            }
}

/* Fills a row with positive and negative numbers. Their magnitudes differ by at most a factor of 2^spread. */
static void
fill_row(int64_t n, int spread)
{
    for (int64_t i = 0; i < n; i++) {
        double u = (double)(next_random(&noise) >> 11) * 0x1p-53 * 2 - 1;
        elements[i] = (float)ldexp(u, spread ? -(int)(next_random(&noise) % (uint64_t)spread) : 0);
    }
}

/* Returns the largest error of a product. An error is divided by the sum of the terms' absolute values and by the
 * rounding unit of f32. */
static double
worst_error(rows_product *product, struct rounded *x)
{
    const uint8_t *w[STREAMS];
    float out[STREAMS];
    double worst = 0;
    for (int s = 0; s < STREAMS; s++) w[s] = weights[s];
    product(&x, 1, w, out);
    for (int s = 0; s < STREAMS; s++) {
        double sum = 0, size = 0;
        for (int64_t b = 0; b < x->nblock; b++) {
            float value[MOST];
            x->coding->block(weights[s] + b * x->coding->bytes, value);
            for (int i = 0; i < x->coding->elements; i++) {
                double term = (double)value[i] * (double)x->x[b * x->coding->elements + i];
                sum += term;
                size += fabs(term);
            }
        }
        worst = fmax(worst, fabs(sum - (double)out[s]) / (size * 0x1p-24 + 1e-30));
    }
    return worst;
}

/* Returns true if rows that are multiplied together have the bits of rows that are multiplied one by one. */
static bool
same_together(rows_product *product, const struct rounded *x)
{
    const uint8_t *w[STREAMS];
    struct rounded rows[TOGETHER], *all[TOGETHER];
    float one[TOGETHER * STREAMS], out[TOGETHER * STREAMS];
    for (int s = 0; s < STREAMS; s++) w[s] = weights[s];
    for (int i = 0; i < TOGETHER; i++) {
        rows[i] = *x;
        if (i % 2) rows[i].high = x->low;
        if (i / 2) rows[i].low = x->high;
        all[i] = &rows[i];
        product(&all[i], 1, w, one + i * STREAMS);
    }
    product(all, TOGETHER, w, out);
    return !memcmp(one, out, sizeof out);
}

static void
test_kind(const char *name, const int *scale, const char *level, rows_product *product)
{
    const struct coding *c = coding_find(name);
    double worst = 0;
    bool same = true;
    for (int n = 1; n <= BLOCKS; n++)
        for (int spread = 0; spread < 24; spread += 4) {
            struct rounded x = {c, n, elements, false, high, low, scales, sums, NULL};
            fill_weights(c, scale);
            fill_row(n * c->elements, spread);
            round_row(&x);
            worst = fmax(worst, worst_error(product, &x));
            same = same && (product == rows_decoded || same_together(product, &x));
        }
    ok(same, "%s, %s: rows have the same bits together and one by one", name, level);
    ok(worst < 16, "%s, %s: sums are those of decoded weights, to f32 rounding; found %.3g roundings", name, level,
       worst);
}

static void
test_rounding(void)
{
    struct rounded x = {coding_find("Q8_0"), 2, elements, false, high, low, scales, sums, NULL};
    static const float values[] = {INFINITY, -INFINITY, NAN, 1e-30f};
    for (size_t i = 0; i < countof(values); i++) {
        memset(elements, 0, sizeof elements);
        elements[40] = values[i];
        x.exact = false;
        round_row(&x);
        ok(x.exact, "a row with %g is not rounded", (double)values[i]);
    }
    memset(elements, 0, sizeof elements);
    x.exact = false;
    round_row(&x);
    ok(!x.exact && scales[0] == 0 && high[0] == 0 && low[0] == 0, "a block of zeros has the scale 0");
    elements[3] = -FLT_MAX, elements[4] = FLT_MAX / 3;
    round_row(&x);
    ok(!x.exact && high[3] == -32767 &&
           fabs((double)scales[0] * (32768.0 * high[4] + low[4]) / (double)elements[4] - 1) < 1e-6,
       "the largest numbers are rounded");
}

int
main(void)
{
    for (size_t i = 0; i < countof(kinds); i++) {
        test_kind(kinds[i].name, kinds[i].scale, "decoded", rows_decoded);
#ifdef X86_LEVELS
        if (machine_level() >= LEVEL_V3) test_kind(kinds[i].name, kinds[i].scale, "AVX2", products[i].v3);
        if (machine_level() == LEVEL_V4 && __builtin_cpu_supports("avx512vnni"))
            test_kind(kinds[i].name, kinds[i].scale, "AVX-512", products[i].v4);
#endif
    }
    test_rounding();
    return done();
}
