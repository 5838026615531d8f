/* lanes.c - tests sums in lanes (kernels/cpu/base/lanes.h). All CPU levels of this machine must give the same bits,
 * for every length around lanes, streams and blocks. Sums of whole numbers must be exact. Random words must equal
 * those of philox(). */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/gemm/gemm_few.c"
#include "kernels/cpu/rows/rows.h"
#include "runtime/data/rng.h"
#include "t/lib/tap.h"
#ifdef X86_LEVELS
#include <immintrin.h>
#endif

#undef LANES_FILE
#define LANES_FILE "kernels/cpu/rows/rows_level.inc"
#include "kernels/cpu/base/lanes_levels.inc"
#undef LANES_FILE
#define LANES_FILE "kernels/cpu/rows/norm_level.inc"
#include "kernels/cpu/base/lanes_levels.inc"
#undef LANES_FILE
#define LANES_FILE "kernels/cpu/math/random_level.inc"
#include "kernels/cpu/base/lanes_levels.inc"

enum { MOST = ROW_BLOCK + WIDE, NLEVEL = LEVEL_V4 + 1 };

#ifdef X86_LEVELS
#define LEVELS(name)                                                                                                   \
    {                                                                                                                  \
        name##_any, name##_v3, name##_v4                                                                               \
    }
#else
#define LEVELS(name)                                                                                                   \
    {                                                                                                                  \
        name##_any, name##_any, name##_any                                                                             \
    }
#endif
static float (*const sums[NLEVEL])(int64_t, const float *) = LEVELS(sum);
static float (*const dots[NLEVEL])(int64_t, const float *, const float *) = LEVELS(dot);
static void (*const grads[NLEVEL])(int64_t, int64_t, const float *, const float *, float *) = LEVELS(softmax_grads);
static void (*const spreads[NLEVEL])(int64_t, const float *, float, double *) = LEVELS(deviations);
static void (*const slopes[NLEVEL])(int64_t, const float *, const float *, const float *, float,
                                    double *) = LEVELS(gradient_sums);
static void (*const products[NLEVEL])(const struct few *, struct few_columns, int64_t, int64_t) = LEVELS(by_rows);
static void (*const words[NLEVEL])(uint64_t, uint64_t, uint64_t, int64_t, uint32_t *) = LEVELS(words);

static uint64_t noise = 1;
static float x[MOST + 1], y[MOST + 1], w[MOST + 1];

/* Fills with random numbers from -8 to 8. If `whole`, the numbers are integers. */
static void
fill(float *to, int64_t n, bool whole)
{
    for (int64_t i = 0; i < n; i++) {
        double u = (double)(next_random(&noise) >> 11) * 0x1p-53 * 16 - 8;
        to[i] = (float)(whole ? floor(u) : u);
    }
}

/* Results of every kind of sum over n elements on one CPU level. */
struct results {
    float sum, dot, grad[2 * 70];
    double spread[2], slope[4];
};

static void
results_of(int level, int64_t n, struct results *to)
{
    memset(to, 0, sizeof *to);
    to->sum = sums[level](n, x + 1);
    to->dot = dots[level](n, x + 1, y);
    if (n <= 70) grads[level](n, 2, x + 1, y, to->grad);
    spreads[level](n, x + 1, 0.75f, to->spread);
    slopes[level](n, x + 1, y, w, 0.75f, to->slope);
}

static bool
exact(int64_t n, const struct results *got)
{
    double sum = 0, dot = 0, spread[2] = {0}, slope[4] = {0};
    for (int64_t i = 0; i < n; i++) {
        double a = (double)x[i + 1], d = a - 0.75, u = (double)(y[i] * w[i]);
        sum += a, dot += a * (double)y[i];
        spread[0] += d, spread[1] += d * d;
        slope[0] += d, slope[1] += d * d, slope[2] += u, slope[3] += u * d;
    }
    bool pass = (double)got->sum == sum && (double)got->dot == dot;
    for (int k = 0; k < 2; k++) pass &= got->spread[k] == spread[k];
    for (int k = 0; k < 4; k++) pass &= got->slope[k] == slope[k];
    return pass;
}

static void
try_rows(bool whole)
{
    fill(x, countof(x), whole), fill(y, countof(y), whole), fill(w, countof(w), whole);
    for (int level = LEVEL_ANY; level <= machine_level(); level++) {
        bool same = true, right = true;
        for (int64_t n = 0; n <= MOST; n += n < 3 * WIDE ? 1 : 41) {
            struct results plain, here;
            results_of(LEVEL_ANY, n, &plain);
            results_of(level, n, &here);
            same &= !memcmp(&plain, &here, sizeof here);
            right &= !whole || exact(n, &here);
        }
        ok(same && right, "sums of %s numbers, level %d", whole ? "whole" : "any", level);
    }
}

/* ---- products of a few rows ---- */

enum { COLS_MOST = 140, K_MOST = 2 * WIDE + 5 + GEMM_SHORT };

static float a[GEMM_FEW * K_MOST], paired[GEMM_FEW * K_MOST], b[COLS_MOST * K_MOST], c[GEMM_FEW * COLS_MOST],
    want[GEMM_FEW * COLS_MOST];
static uint16_t short_b[COLS_MOST * K_MOST];

/* Memory layout of operand b: column-major, column-major in bf16, row-major. */
enum { COLUMNS, HALVES, ROWS, NWAY };
static const char *const way_name[] = {"columns", "columns of bf16", "rows"};

static bool
try_product(int level, int form, bool whole, int64_t m, int64_t n, int64_t k)
{
    struct few p = {m, k, a, form == HALVES ? (void *)short_b : b, c, form == HALVES, false, k, 1, 1, k, n, 1};
    if (form == HALVES) {
        p.a = memcpy(paired, a, sizeof a);
        for (int64_t i = 0; i < m; i++) gemm_few_pair(k, paired + i * k);
    }
    if (form == ROWS) p.b_row = n, p.b_col = 1;
    memset(c, 0, sizeof c);
    struct few_columns all = {0, n};
    int64_t turns = few_turns(all), half = turns / 2;
    products[LEVEL_ANY](&p, all, 0, turns);
    memcpy(want, c, sizeof c);
    memset(c, 0, sizeof c);
    products[level](&p, all, 0, turns);
    bool pass = !memcmp(c, want, sizeof c);
    /* computes the columns in several calls, and those of the second half before the others */
    if (form != ROWS && k >= GEMM_SHORT) {
        memset(c, 0, sizeof c);
        products[level](&p, all, half, turns);
        for (int64_t t = 0; t < half; t++) products[level](&p, all, t, t + 1);
        pass &= !memcmp(c, want, sizeof c);
    }
    for (int64_t i = 0; i < m && whole; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++) {
                int64_t at = l * p.b_row + j * p.b_col;
                float z = form == HALVES ? float_of((uint32_t)short_b[at] << 16) : b[at];
                sum += (double)a[i * k + l] * (double)z;
            }
            pass &= (double)c[i * n + j] == sum;
        }
    return pass;
}

static void
try_products(int form, bool whole)
{
    static const int64_t cols[] = {1, 3, 4, 15, 16, 17, 63, 64, 65, 131},
                         lengths[] = {0, 1, 15, 16, 17, 31, 32, 33, 64, 65, 133, 260, 263};
    fill(a, countof(a), whole), fill(b, countof(b), whole);
    for (size_t i = 0; i < countof(b); i++) short_b[i] = (uint16_t)(bits_of(b[i]) >> 16);
    for (int level = LEVEL_ANY; level <= machine_level(); level++) {
        bool pass = true;
        for (int64_t m = 1; m <= GEMM_FEW; m++)
            for (size_t i = 0; i < countof(cols); i++)
                for (size_t j = 0; j < countof(lengths); j++)
                    pass &= try_product(level, form, whole, m, cols[i], lengths[j]);
        ok(pass, "products of %s numbers, b by %s, level %d", whole ? "whole" : "any", way_name[form], level);
    }
}

/* ---- random words ---- */

static void
try_words(void)
{
    static const uint64_t firsts[] = {0, 5, 0xfffffffd, 0x123456789abc};
    for (int level = LEVEL_ANY; level <= machine_level(); level++) {
        bool pass = true;
        for (size_t f = 0; f < countof(firsts); f++)
            for (int64_t n = 0; n < 20; n++) {
                uint32_t got[4 * 32] = {0};
                uint64_t key = next_random(&noise), piece = next_random(&noise);
                words[level](key, piece, firsts[f], n, got);
                for (int64_t i = 0; i < n; i++) {
                    uint32_t right[4];
                    philox(key, piece, firsts[f] + (uint64_t)i, right);
                    pass &= !memcmp(right, got + 4 * i, sizeof right);
                }
            }
        ok(pass, "random words, level %d", level);
    }
}

int
main(void)
{
    try_words();
    for (int whole = 0; whole < 2; whole++) {
        try_rows(whole);
        for (int form = 0; form < NWAY; form++) try_products(form, whole);
    }
    return done();
}
