/* gemm_small.c - compiles the loops of gemm_small_level.inc for each x86-64 level, and chooses between levels.
 *
 * Sixteen sums at once hide the latency of a fused multiply-add. They are arranged in rows and columns such that
 * each step needs as few loads as possible. The loops are not one function compiled for all levels
 * (runtime/base/simd.h), because vectors must have the width of the level's registers. */
#pragma GCC optimize("O3", "no-trapping-math", "fp-contract=fast")
#include "kernels/cpu/gemm/gemm_small.h"

#include "kernels/cpu/base/lanes.h"

#include <assert.h>

typedef float element __attribute__((may_alias)); /* a float, or the bits of a pair of bf16 */

struct small {
    int64_t m, n, k, b_row, c_row;
    struct small_operand a;
    const element *b;
    float *c;
    bool add;
    /* the next panel of b, which is prefetched while the current panel's copy is used; NULL: panels are not copied */
    const element *next;
    int64_t next_row;
};

/* Limits for copying a panel of b before rows of a are processed. SMALL_COPY: maximum rows of the panel (k);
 * SMALL_FAR: minimum stride of its rows, floats. Rows of b that are far apart are mapped to few sets of the
 * first-level cache, and the hardware does not prefetch them. Speed of 64 x 1024 x 64 on one Zen 4 core, per cent
 * of the peak (114 Gflop/s):
 *
 *                     without copies   with copies
 *    b in the cache               92            96
 *    b in memory                  57            83 */
enum { SMALL_COPY = 128, SMALL_FAR = 512 };
INLINE bool
is_copied(const struct small *g)
{
    enum { PAYS = 16 };
    return g->b_row >= SMALL_FAR && g->k <= SMALL_COPY && g->m >= PAYS;
}

/* MOST_VECTORS: maximum number of vectors in a row of sums; x86-64 processors without AVX-512 have 16 registers. */
#ifdef X86_LEVELS
#define MOST_VECTORS (VEC == 16 ? 4 : 2)
#else
#define MOST_VECTORS 4
#endif
#define TIMES(sum, y, x) ((sum) + (y) * (x))
#define LANES_FILE       "kernels/cpu/gemm/gemm_small_level.inc"
#include "kernels/cpu/base/lanes_levels.inc"

#ifdef X86_LEVELS
#include <immintrin.h>

/* bf16 operands: an element is a pair of bf16 values, and dpbf16 adds the products of both values to the sum. */
#undef TIMES
#define TIMES(sum, y, x) _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_epi32((int)bits_of(y)), (__m512bh)(x))
#define LEVEL(name)      name##_pairs
#define AT_LEVEL         X86_V4_BF16
#define AT(x)            (*(const sixteen_anywhere *)(x))
#define vec              sixteen
#define VEC              16
#include LANES_FILE
#endif

static void (*const columns[])(const struct small *) = {
    [LEVEL_ANY] = columns_any,
#ifdef X86_LEVELS
    [LEVEL_V3] = columns_v3,
    [LEVEL_V4] = columns_v4,
#endif
};

void
gemm_small(int64_t m, int64_t n, int64_t k, struct small_operand a, const void *b, int64_t b_row, bool add, float *c,
           int64_t c_row)
{
    assert(n % SMALL_COLS == 0 && (a.row == 1 || a.col == 1));
    columns[machine_level()](&(struct small){m, n, k, b_row, c_row, a, b, c, add, NULL, 0});
}

#ifdef X86_LEVELS
static void
of_pairs(int64_t m, int64_t n, int64_t k, struct small_operand a, const void *b, int64_t b_row, bool add, float *c,
         int64_t c_row)
{
    assert(n % SMALL_COLS == 0 && (a.row == 1 || a.col == 1));
    columns_pairs(&(struct small){m, n, k, b_row, c_row, a, b, c, add, NULL, 0});
}
#endif

small_product *
gemm_pairs(void)
{
#ifdef X86_LEVELS
    if (machine_doubles_bf16()) return of_pairs;
#endif
    return NULL;
}
