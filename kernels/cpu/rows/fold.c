/* fold.c - sums, products and sums of squares of floats, accumulated in f64.
 *
 * A core has two pipes that convert and add, and two that multiply. A sum written as fma(x, 1, sum) rounds like an
 * addition, but leaves the first two pipes to conversions. Zen 4 splits 64-byte vectors: it converts four floats
 * from memory in one step, but eight floats in four steps. So there are loops for both vector widths, whose lanes
 * add in the same order.
 *
 * A sum of f32{256,3072} from the cache takes 27 us on one Zen 4 core while other cores are busy. With plain
 * additions it would take 54 us, and with sums in f32 32 us. */
#pragma GCC optimize("O3", "no-trapping-math", "fp-contract=fast")
#include "kernels/cpu/rows/fold.h"

#include "runtime/base/base.h"
#include "runtime/tensor/half.h"
#include "runtime/base/simd.h"

/* A row is read as STREAMS streams, each SHARE lanes wide and `apart` elements from the next. All streams advance
 * by `step` elements per iteration. In a long row the streams are far apart, because memory is faster with several
 * streams: a Xeon core (Sapphire Rapids) then sums 64 M floats in 16 ms instead of 20. */
enum { LANES = 64, STREAMS = 4, SHARE = LANES / STREAMS, FAR_APART = 16384 };
struct streams {
    int64_t turns, apart, step;
};
INLINE struct streams
streams_of(int64_t n)
{
    int64_t turns = n / LANES;
    return n < FAR_APART ? (struct streams){turns, SHARE, LANES} : (struct streams){turns, turns * SHARE, SHARE};
}

/* Prefetch distance in each stream, elements. Zen 4 does not prefetch, because its hardware prefetcher alone is
 * faster: it reaches 96 GB/s from the last-level cache and 32 from memory, but 70 and 28 with our prefetches. */
enum { AHEAD = 1024 };

typedef double doubles4 __attribute__((vector_size(32)));
typedef double doubles8 __attribute__((vector_size(64)));
typedef float floats4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float floats8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t ints4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t ints8 __attribute__((vector_size(32), aligned(4), may_alias));

/* Masks for vectors: a mask loaded from keep + r selects the last r of SHARE lanes and clears the others. */
static const int32_t keep[2 * SHARE] = {[SHARE] = -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

#define WIDE4(x)                                                                                                       \
    (doubles4) { (x)[0], (x)[1], (x)[2], (x)[3] }
#define WIDE8(x)                                                                                                       \
    (doubles8) { (x)[0], (x)[1], (x)[2], (x)[3], (x)[4], (x)[5], (x)[6], (x)[7] }
#define SUM(v, y)     (v) + (y)*one
#define PROD(v, y)    (v) * (y)
#define SQUARES(v, y) (v) + (y) * (y)
#define PLUS(a, b)    (a) + (b)
#define TIMES(a, b)   (a) * (b)

/* Unrolls a loop over vectors, so that gcc keeps the vectors in registers. */
#define ALL _Pragma("GCC unroll 16")

/* Defines name_W, which folds a row with vectors of W numbers, and name_of_W, which other functions inline. If
 * fewer than SHARE elements remain, the last SHARE elements of the row are read, and a mask removes those that are
 * already folded. At the end the lanes are combined, the upper half with the lower half, until one is left. */
#define FOLD(name, W, LEVEL, first, JOIN, BOTH)                                                                        \
    INLINE double name##_of_##W(const float *x, int64_t n)                                                             \
    {                                                                                                                  \
        enum { N = LANES / W, EACH = SHARE / W };                                                                      \
        struct streams s = streams_of(n);                                                                              \
        double number = 1, none = first;                                                                               \
        IN_REGISTER(number); /* otherwise gcc omits the products by `number` */                                        \
        IN_REGISTER(none);   /* otherwise gcc clears the lanes in memory, which costs more than a short row */         \
        doubles##W v[N], one = (doubles##W){0} + number;                                                               \
        UNUSED(one);                                                                                                   \
        ALL for (int k = 0; k < N; k++) v[k] = (doubles##W){0} + none;                                                 \
        for (int64_t t = 0; t < s.turns; t++) ALL for (int k = 0; k < STREAMS; k++)                                    \
            {                                                                                                          \
                const float *at = x + k * s.apart + t * s.step;                                                        \
                if (W == 8) __builtin_prefetch(at + AHEAD);                                                            \
                ALL for (int j = 0; j < EACH; j++) v[k * EACH + j] = JOIN(v[k * EACH + j], WIDE##W(at + j * W));       \
            }                                                                                                          \
        int64_t i = s.turns * LANES;                                                                                   \
        for (; i + SHARE <= n; i += SHARE)                                                                             \
            ALL for (int j = 0; j < EACH; j++) v[j] = JOIN(v[j], WIDE##W(x + i + j * W));                              \
        if (i < n && n >= SHARE) {                                                                                     \
            ALL for (int j = 0; j < EACH; j++)                                                                         \
            {                                                                                                          \
                ints##W mask = *(const ints##W *)(keep + (n - i) + j * W), other = (ints##W)((floats##W){0} + first);  \
                ints##W bits = *(const ints##W *)(x + n - SHARE + j * W);                                              \
                floats##W part = (floats##W)((bits & mask) | (other & ~mask));                                         \
                v[j] = JOIN(v[j], WIDE##W(part));                                                                      \
            }                                                                                                          \
            i = n;                                                                                                     \
        }                                                                                                              \
        ALL for (int half = N / 2; half > 0; half /= 2) ALL for (int k = 0; k < half; k++) v[k] =                      \
            BOTH(v[k], v[k + half]);                                                                                   \
        double lane[W], all = first;                                                                                   \
        ALL for (int l = 0; l < W; l++) lane[l] = v[0][l];                                                             \
        ALL for (int half = W / 2; half > 0; half /= 2) ALL for (int l = 0; l < half; l++) lane[l] =                   \
            BOTH(lane[l], lane[l + half]);                                                                             \
        for (; i < n; i++) all = BOTH(all, POWER(x[i]));                                                               \
        return BOTH(all, lane[0]);                                                                                     \
    }                                                                                                                  \
    LEVEL static double name##_##W(const float *x, int64_t n) { return name##_of_##W(x, n); }

/* Defines sums_W, which sums long rows one after the other. */
#define SUMS(W, LEVEL)                                                                                                 \
    LEVEL static void sums_##W(const float *x, int64_t apart, int64_t rows, int64_t n, double *a)                      \
    {                                                                                                                  \
        for (int64_t r = 0; r < rows; r++) a[r] += sum_of_##W(x + r * apart, n);                                       \
    }

/* Defines rows_W, which adds each element of a row to the sum of its column. The sums stay in registers over a few
 * rows. Later rows are prefetched from memory into the second-level cache, because the first-level cache has room
 * only for the sums and the current rows.
 *
 * Prefetching helps only if the rows are in memory. Times on a Xeon (Emerald Rapids), us:
 *
 *                                       without   with
 *    f32{256,3072}, last-level cache        103    115
 *    f32{4096,4096}, memory               5,000  2,800
 *
 * If data is in the second-level cache, conversions take most of the time. Adding two rows as floats before the
 * conversion would take two thirds of the time, but lose the last digits of means. */
#define DOWN(W, LEVEL)                                                                                                 \
    LEVEL static void rows_##W(const float *x, int64_t apart, int64_t rows, int64_t n, bool far, double *a)            \
    {                                                                                                                  \
        enum { N = 8, ABREAST = N * W, LINE = 16 };                                                                    \
        int64_t i = 0;                                                                                                 \
        double number = 1;                                                                                             \
        IN_REGISTER(number);                                                                                           \
        const doubles##W one = (doubles##W){0} + number;                                                               \
        for (; i + ABREAST <= n; i += ABREAST) {                                                                       \
            doubles##W v[N];                                                                                           \
            for (int k = 0; k < N; k++) v[k] = *(doubles##W *)(a + i + W * k);                                         \
            for (int64_t r = 0; r < rows; r++) {                                                                       \
                const float *at = x + r * apart + i;                                                                   \
                for (int l = 0; W == 8 && far && l < ABREAST; l += LINE)                                               \
                    __builtin_prefetch(at + rows * apart + l, 0, 2);                                                   \
                for (int k = 0; k < N; k++) v[k] = SUM(v[k], WIDE##W(at + W * k));                                     \
            }                                                                                                          \
            for (int k = 0; k < N; k++) *(doubles##W *)(a + i + W * k) = v[k];                                         \
        }                                                                                                              \
        for (int64_t r = 0; r < rows && i < n; r++)                                                                    \
            for (int64_t k = i; k < n; k++) a[k] += x[r * apart + k];                                                  \
    }

#define POWER(x) ((double)(x))
DOWN(4, VECTOR)
FOLD(sum, 4, VECTOR, 0, SUM, PLUS)
SUMS(4, VECTOR)
FOLD(prod, 4, VECTOR, 1, PROD, TIMES)
#ifdef X86_LEVELS
DOWN(8, X86_V4)
FOLD(sum, 8, X86_V4, 0, SUM, PLUS)
SUMS(8, X86_V4)
FOLD(prod, 8, X86_V4, 1, PROD, TIMES)
#endif
#undef POWER
#define POWER(x) ((double)(x) * (x))
FOLD(squares, 4, VECTOR, 0, SQUARES, PLUS)
#ifdef X86_LEVELS
FOLD(squares, 8, X86_V4, 0, SQUARES, PLUS)
#else
#define rows_8    rows_4
#define sum_8     sum_4
#define sums_8    sums_4
#define prod_8    prod_4
#define squares_8 squares_4
#endif

/* Sums rows of SHARE to SHORT - 1 elements, FOUR rows at a time, because the additions of a single row would wait
 * for each other. Four vectors hold the sums of a row. A row's sum has the same bits whichever rows are summed
 * with it. */
enum { SHORT = 1280, FOUR = 4 };
VECTOR static void
fold_eight_rows(const float *x, int64_t apart, int64_t rows, int64_t n, double *a)
{
    enum { W = 4, EACH = SHARE / W };
    double number = 1;
    IN_REGISTER(number);
    const doubles4 one = (doubles4){0} + number;
    for (int64_t r = 0; r < rows; r += FOUR) {
        const float *row[FOUR];
        doubles4 v[FOUR][EACH], s[FOUR];
        int64_t i = 0;
        for (int k = 0; k < FOUR; k++) row[k] = x + MIN(r + k, rows - 1) * apart;
        for (int k = 0; k < FOUR; k++)
            for (int j = 0; j < EACH; j++) v[k][j] = (doubles4){0};
        for (; i + SHARE <= n; i += SHARE)
            for (int k = 0; k < FOUR; k++)
                for (int j = 0; j < EACH; j++) v[k][j] = SUM(v[k][j], WIDE4(row[k] + i + j * W));
        for (int j = 0; j < EACH && i < n; j++) {
            ints4 mask = *(const ints4 *)(keep + (n - i) + j * W);
            for (int k = 0; k < FOUR; k++) {
                floats4 part = (floats4)(*(const ints4 *)(row[k] + n - SHARE + j * W) & mask);
                v[k][j] = SUM(v[k][j], WIDE4(part));
            }
        }
        for (int k = 0; k < FOUR; k++) s[k] = (v[k][0] + v[k][1]) + (v[k][2] + v[k][3]);
        doubles4 low =
            __builtin_shufflevector(s[0], s[1], 0, 4, 2, 6) + __builtin_shufflevector(s[0], s[1], 1, 5, 3, 7);
        doubles4 high =
            __builtin_shufflevector(s[2], s[3], 0, 4, 2, 6) + __builtin_shufflevector(s[2], s[3], 1, 5, 3, 7);
        doubles4 all = __builtin_shufflevector(low, high, 0, 1, 4, 5) + __builtin_shufflevector(low, high, 2, 3, 6, 7);
        for (int k = 0; k < MIN(FOUR, rows - r); k++) a[r + k] += all[k];
    }
}

double
fold_sum(const float *x, int64_t n)
{
    return machine_takes_wide() ? sum_8(x, n) : sum_4(x, n);
}

void
fold_sums(const float *x, int64_t apart, int64_t rows, int64_t n, double *a)
{
    if (n >= SHARE && n < SHORT)
        fold_eight_rows(x, apart, rows, n, a);
    else
        (machine_takes_wide() ? sums_8 : sums_4)(x, apart, rows, n, a);
}

double
fold_prod(const float *x, int64_t n)
{
    return machine_takes_wide() ? prod_8(x, n) : prod_4(x, n);
}

double
fold_squares(const float *x, int64_t n)
{
    return machine_takes_wide() ? squares_8(x, n) : squares_4(x, n);
}

void
fold_rows(const float *x, int64_t apart, int64_t rows, int64_t n, bool far, double *a)
{
    (machine_takes_wide() ? rows_8 : rows_4)(x, apart, rows, n, far, a);
}

VECTOR void
fold_add(const float *x, int64_t n, double *sum)
{
    for (int64_t i = 0; i < n; i++) sum[i] += (double)x[i];
}
EXPORTED(fold_add)

/* Defines columns_NAME, which sums each column of rows of 16-bit floats, row by row. */
#define COLUMNS(name, FLOAT)                                                                                           \
    VECTOR static void columns_##name(const uint16_t *x, int64_t apart, int64_t rows, int64_t n, float *sum)           \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) sum[i] = FLOAT(x[i]);                                                          \
        for (int64_t r = 1; r < rows; r++)                                                                             \
            for (int64_t i = 0; i < n; i++) sum[i] += FLOAT(x[r * apart + i]);                                         \
    }
COLUMNS(bf16, from_bf16)
COLUMNS(f16, from_f16)

/* Sums 64 columns of bf16 at a time in registers, row by row. A word holds two bf16. The upper bf16, with zeros
 * below, already is a float; the lower one is shifted up. Returns the number of columns that have been summed. */
VECTOR static int64_t
columns_bf16_wide(const uint16_t *x, int64_t apart, int64_t rows, int64_t n, float *sum)
{
    enum { N = 2, W = 16, ABREAST = 2 * N * W };
    typedef uint32_t words __attribute__((vector_size(4 * W), aligned(2), may_alias));
    typedef uint32_t bits __attribute__((vector_size(4 * W)));
    typedef float floats __attribute__((vector_size(4 * W)));
    typedef float floats_at __attribute__((vector_size(4 * W), aligned(4), may_alias));
    int64_t i = 0;
    for (; i + ABREAST <= n; i += ABREAST) {
        floats even[N], odd[N];
        /* Starts from -0, because a start from +0 would turn a sum of -0 into +0. */
        for (int k = 0; k < N; k++) even[k] = odd[k] = -(floats){0};
        for (int64_t r = 0; r < rows; r++)
            for (int k = 0; k < N; k++) {
                bits w = *(const words *)(const void *)(x + r * apart + i + 2 * W * k);
                even[k] += (floats)(w << 16);
                odd[k] += (floats)(w & 0xffff0000);
            }
        for (int k = 0; k < N; k++) {
            floats_at *to = (floats_at *)(void *)(sum + i + 2 * W * k);
            to[0] = __builtin_shufflevector(even[k], odd[k], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            to[1] =
                __builtin_shufflevector(even[k], odd[k], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        }
    }
    return i;
}

#ifdef X86_LEVELS
/* Sums 32 columns of f16 at a time, which the processor's instruction converts. Returns the number of columns that
 * have been summed. */
X86_V3 static int64_t
columns_f16_wide(const uint16_t *x, int64_t apart, int64_t rows, int64_t n, float *sum)
{
    enum { N = 4, W = 8, ABREAST = N * W };
    int64_t i = 0;
    for (; i + ABREAST <= n; i += ABREAST) {
        __m256 s[N];
        for (int k = 0; k < N; k++) s[k] = _mm256_cvtph_ps(_mm_loadu_si128((const void *)(x + i + W * k)));
        for (int64_t r = 1; r < rows; r++)
            for (int k = 0; k < N; k++)
                s[k] += _mm256_cvtph_ps(_mm_loadu_si128((const void *)(x + r * apart + i + W * k)));
        for (int k = 0; k < N; k++) _mm256_storeu_ps(sum + i + W * k, s[k]);
    }
    return i;
}
#endif

VECTOR static bool
all_finite(const float *x, int64_t n)
{
    uint32_t beyond = 0;
    for (int64_t i = 0; i < n; i++) beyond |= (bits_of(x[i]) & 0x7f800000) == 0x7f800000;
    return !beyond;
}

bool
fold_halves(enum dtype d, const uint16_t *x, int64_t apart, int64_t rows, int64_t n, float *sum)
{
    int64_t done = d == DT_BF16 ? columns_bf16_wide(x, apart, rows, n, sum) : 0;
#ifdef X86_LEVELS
    if (d == DT_F16 && machine_level() >= LEVEL_V3) done = columns_f16_wide(x, apart, rows, n, sum);
#endif
    (d == DT_F16 ? columns_f16 : columns_bf16)(x + done, apart, rows, n - done, sum + done);
    /* Sums of up to FOLD_ROWS f16 cannot overflow f32, because the largest f16 is 65504. */
    return d == DT_F16 || all_finite(sum, n);
}
