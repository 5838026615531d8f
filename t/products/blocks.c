/* blocks.c - tests matrix products with block-quantised weights (kernels/cpu/layers/blocks.c).
 *
 * On every CPU level of this machine, a product must equal the product with the decoded weights, for all row lengths
 * up to 9 blocks, and for numbers of all magnitudes. */
#include "kernels/cpu/layers/blocks.c"

#include "runtime/data/rng.h"
#include "runtime/tensor/half.h"
#include "t/lib/tap.h"

#include <float.h>

/* BLOCKS: maximum length of a row in blocks: a chunk of the product, and a bit more. COUNT: rows of x: every number of
 * rows that are multiplied together. */
enum { BLOCKS = 9, BYTES = 210, COUNT = 15 };

static uint64_t noise = 1;
static uint8_t weights[LANES][BLOCKS * BYTES];
static float elements[BLOCKS * MOST], sums[BLOCKS * MOST / GROUP], scales[BLOCKS * MOST / GROUP];
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
    for (int s = 0; s < LANES; s++)
        for (int i = 0; i < BLOCKS * c->bytes; i++) weights[s][i] = (uint8_t)next_random(&noise);
    for (int s = 0; s < LANES; s++)
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

/* Returns the largest error of a product; NULL: of decoded weights. An error is divided by the sum of the terms'
 * absolute values and by the rounding unit of f32. */
static double
worst_error(const struct product *product, struct rounded *x)
{
    const uint8_t *w[LANES];
    float out[LANES];
    double worst = 0;
    for (int s = 0; s < LANES; s++) w[s] = weights[s];
    if (product) product->multiply(&x, 1, w, out);
    for (int s = 0; s < (product ? product->lanes : LANES); s++) {
        if (!product) out[s] = multiply_decoded(x, w[s]);
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
same_together(const struct product *product, const struct rounded *x)
{
    const uint8_t *w[LANES];
    struct rounded rows[COUNT], *all[COUNT];
    float one[COUNT * LANES], out[COUNT * LANES];
    for (int s = 0; s < LANES; s++) w[s] = weights[s];
    for (int i = 0; i < COUNT; i++) {
        rows[i] = *x;
        if (i % 2) rows[i].high = x->low;
        if (i / 2 % 2) rows[i].low = x->high;
        all[i] = &rows[i];
        product->multiply(&all[i], 1, w, one + i * product->lanes);
    }
    product->multiply(all, COUNT, w, out);
    return !memcmp(one, out, sizeof *out * (size_t)(COUNT * product->lanes));
}

static void
test_kind(const char *name, const int *scale, const char *level, const struct product *product)
{
    const struct coding *c = coding_find(name);
    double worst = 0;
    bool same = true;
    for (int n = 1; n <= BLOCKS; n++)
        for (int spread = 0; spread < 24; spread += 4) {
            struct rounded x = {c, NULL, n, elements, high, low, scales, sums};
            fill_weights(c, scale);
            fill_row(n * c->elements, spread);
            round_row(&x);
            worst = fmax(worst, worst_error(product, &x));
            same = same && (!product || same_together(product, &x));
        }
    ok(same, "%s, %s: rows have the same bits together and one by one", name, level);
    ok(worst < 16, "%s, %s: sums are those of decoded weights, to f32 rounding; found %.3g roundings", name, level,
       worst);
}

/* Tests all functions from rounding to results: with infinities in one of the rows, whose weights are decoded, and with
 * ranges of rows that do not fill the lanes. */
static void
test_ranges(const char *name, const int *scale)
{
    enum { ROWS = 3 };
    const struct coding *c = coding_find(name);
    int64_t k = BLOCKS * c->elements;
    static uint8_t w[2 * LANES][BLOCKS * BYTES];
    static float x[ROWS][BLOCKS * MOST];
    float all[ROWS][2 * LANES], some[ROWS][2 * LANES];
    struct rounded *rows[ROWS];
    for (int half = 0; half < 2; half++) {
        fill_weights(c, scale);
        for (int s = 0; s < LANES; s++)
            memcpy((uint8_t *)w + (half * LANES + s) * BLOCKS * c->bytes, weights[s], (size_t)(BLOCKS * c->bytes));
    }
    for (int i = 0; i < ROWS; i++) {
        fill_row(k, 0);
        memcpy(x[i], elements, sizeof *x);
        if (i == 1) x[i][5] = INFINITY;
        rows[i] = blocks_round(c, k, x[i], must_alloc(blocks_rounded_bytes(k)));
    }
    bool good = true;
    blocks_multiply(ROWS, rows, (uint8_t *)w, 0, 2 * LANES, (float *[]){all[0], all[1], all[2]});
    for (int lo = 0; lo < 2 * LANES; lo++)
        for (int hi = lo + 1; hi <= 2 * LANES; hi++) {
            memset(some, 255, sizeof some);
            blocks_multiply(ROWS, rows, (uint8_t *)w, lo, hi, (float *[]){some[0], some[1], some[2]});
            for (int i = 0; i < ROWS; i++)
                for (int j = 0; j < 2 * LANES; j++)
                    good = good &&
                           (j >= lo && j < hi ? !memcmp(&some[i][j], &all[i][j], sizeof(float)) : isnan(some[i][j]));
        }
    ok(good, "%s: each range of weights has the same results, and writes no other number", name);
    float value[MOST];
    c->block((uint8_t *)w, value);
    ok(value[5] == 0 ? isnan(all[1][0]) : isinf(all[1][0]),
       "%s: a row with an infinity is multiplied by decoded weights", name);
    for (int i = 0; i < ROWS; i++) free(rows[i]);
}

static void
test_rounding(void)
{
    struct rounded x = {coding_find("Q8_0"), NULL, 2, elements, high, low, scales, sums};
    static const float values[] = {INFINITY, -INFINITY, NAN, 1e-30f};
    for (size_t i = 0; i < countof(values); i++) {
        memset(elements, 0, sizeof elements);
        elements[40] = values[i];
        ok(!round_row(&x), "a row with %g is not rounded", (double)values[i]);
    }
    memset(elements, 0, sizeof elements);
    ok(round_row(&x) && scales[0] == 0 && high[0] == 0 && low[0] == 0, "a block of zeros has the scale 0");
    elements[3] = -FLT_MAX, elements[4] = FLT_MAX / 3;
    ok(round_row(&x) && high[3] == -32767 &&
           fabs((double)scales[0] * (32768.0 * high[4] + low[4]) / (double)elements[4] - 1) < 1e-6,
       "the largest numbers are rounded");
}

int
main(void)
{
    for (size_t i = 0; i < countof(kinds); i++) {
        test_kind(kinds[i].name, kinds[i].scale, "decoded", NULL);
#ifdef X86_LEVELS
        if (machine_level() >= LEVEL_V3) test_kind(kinds[i].name, kinds[i].scale, "AVX2", &products[i][1]);
        if (machine_level() == LEVEL_V4 && __builtin_cpu_supports("avx512vnni"))
            test_kind(kinds[i].name, kinds[i].scale, "AVX-512", &products[i][0]);
#endif
    }
    for (size_t i = 0; i < countof(kinds); i++) test_ranges(kinds[i].name, kinds[i].scale);
    test_rounding();
    return done();
}
