/* small.c - tests products of small matrices on every CPU level of this machine. Sizes are around those of blocks.
 * The first operand is row-major or column-major. Rows of the second operand are near or distant; the kernel copies
 * distant ones. Products accumulate or do not, and some multiply pairs of bf16. Values are integers, so results are
 * exact. Kernels must not write outside the result. */
#include "kernels/cpu/gemm/gemm_small.c"
#include "runtime/data/arena.h"
#include "runtime/tensor/half.h"
#include "t/lib/tap.h"

enum {
    MOST = 132,
    BEYOND = 3,
    FAR = 515
    /* MOST: maximum of the numbers of rows, of columns, and of terms per sum. BEYOND, FAR: unused floats at the
     * end of each row of b, for near and for distant rows. */
};

static float a[MOST * MOST], b[MOST * (MOST + FAR)], c[MOST * MOST], want[MOST * MOST];

static uint16_t words[2][MOST * MOST][2];

static uint64_t noise;

static void
fill(float *x, int n)
{
    for (int i = 0; i < n; i++) x[i] = (float)(next_random(&noise) % 17) - 8;
}

static bool
try_product(int64_t m, int64_t n, int64_t k, bool transposed, bool far, bool add, int level)
{
    int64_t b_row = n + (far ? FAR : BEYOND), c_row = n + BEYOND;
    struct small_operand x = {a, transposed ? 1 : k + BEYOND, transposed ? m + BEYOND : 1};
    fill(c, countof(c));
    memcpy(want, c, sizeof c);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = add ? c[i * c_row + j] : 0;
            for (int64_t p = 0; p < k; p++) sum += a[i * x.row + p * x.col] * b[p * b_row + j];
            want[i * c_row + j] = sum;
        }
    columns[level](&(struct small){m, n, k, b_row, c_row, x, b, c, add, NULL, 0});
    bool pass = !memcmp(c, want, sizeof c);
    if (!pass)
        diag("{%lld, %lld} times {%lld, %lld}%s%s%s", (long long)m, (long long)k, (long long)k, (long long)n,
             transposed ? ", the first column-major" : "", far ? ", distant rows" : "", add ? ", accumulated" : "");
    return pass;
}

/* Tries products of bf16 pairs: each word holds two numbers along k, in both operands. */
static bool
try_pairs(int64_t m, int64_t n, int64_t k, bool transposed, bool add)
{
    int64_t b_row = n + BEYOND, c_row = n + BEYOND;
    struct small_operand x = {words[0], transposed ? 1 : k + BEYOND, transposed ? m + BEYOND : 1};
    fill(c, countof(c));
    memcpy(want, c, sizeof c);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t p = 0; p < k; p++) {
                const uint16_t *y = words[0][i * x.row + p * x.col], *z = words[1][p * b_row + j];
                float sum = from_bf16(y[0]) * from_bf16(z[0]) + from_bf16(y[1]) * from_bf16(z[1]);
                want[i * c_row + j] = sum + (add || p ? want[i * c_row + j] : 0);
            }
    for (int64_t i = 0; i < m * !k; i++)
        for (int64_t j = 0; j < n && !add; j++) want[i * c_row + j] = 0;
    gemm_pairs()(m, n, k, x, words[1], b_row, add, c, c_row);
    return !memcmp(c, want, sizeof c);
}

int
main(void)
{
    static const int64_t rows[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 64, 67};
    static const int64_t cols[] = {0, 16, 32, 48, 64, 80, 96, 112};
    static const int64_t lengths[] = {0, 1, 2, 3, 8, 33, 64, SMALL_COPY, SMALL_COPY + 1};
    noise = seed_of(1);
    fill(a, countof(a));
    fill(b, countof(b));
    for (int form = 0; form < 8; form++)
        for (int level = LEVEL_ANY; level <= machine_level(); level++)
            for (size_t j = 0; j < countof(cols); j++) {
                bool pass = true, transposed = form & 1, add = form & 2, far = form & 4;
                for (size_t i = 0; i < countof(rows); i++)
                    for (size_t p = 0; p < countof(lengths); p++)
                        pass &= try_product(rows[i], cols[j], lengths[p], transposed, far, add, level);
                ok(pass, "products with %lld columns%s%s%s, level %d", (long long)cols[j],
                   transposed ? ", the first operand column-major" : "", far ? ", distant rows" : "",
                   add ? ", accumulated" : "", level);
            }
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < countof(words[k]); i++)
            for (int h = 0; h < 2; h++) words[k][i][h] = to_bf16((float)(next_random(&noise) % 17) - 8);
    for (int form = 0; form < 4 && gemm_pairs(); form++)
        for (size_t j = 0; j < countof(cols); j++) {
            bool pass = true, transposed = form & 1, add = form & 2;
            for (size_t i = 0; i < countof(rows); i++)
                for (size_t p = 0; p < countof(lengths); p++)
                    if (lengths[p] < MOST - BEYOND) pass &= try_pairs(rows[i], cols[j], lengths[p], transposed, add);
            ok(pass, "products of bf16 pairs with %lld columns%s%s", (long long)cols[j],
               transposed ? ", the first operand column-major" : "", add ? ", accumulated" : "");
        }
    return done();
}
