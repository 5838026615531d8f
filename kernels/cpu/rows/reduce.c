/* reduce.c - reductions over any dimensions of a strided view.
 *
 * Contiguous dimensions that are all kept or all reduced are merged into one loop. The last loop is the row. The
 * other loops are nested, kept dimensions outside reduced dimensions, so that accumulators stay in cache. A
 * reduced row folds into one number. A kept row is added to a row of accumulators, a block at a time. The position
 * of an element determines the lane that adds it, so results are bit-identical on every run.
 *
 * Sums and products are accumulated in double or i64, maxima and minima in the type that is read. bool, u8 and i32
 * are read as i32. Short rows of floats are folded four at a time. 64 lanes hide the latency of an addition and of
 * a maximum; with 16 lanes a reduction takes 4 times as long. A call per row of a few elements would be expensive.
 * So a short reduced row is exchanged with the kept loop around it, and short kept rows are joined side by side.
 * Reduced rows are read in memory order. One Zen 5 core reads 16M elements from memory at 51 GB/s, or at 30 if it
 * reduces the outer dimension.
 *
 * Effect of these choices, us:
 *
 *                                                           otherwise   this file
 *    maxima of the rows of f32{1000,100}, Zen 4, 4 rows at a time  32          12
 *    f32{32,16,1024} reduced to size 16, in memory order           41          28 */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/rows/reduce.h"

#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/rows/fold.h"
#include "kernels/cpu/rows/products.h"
#include "runtime/base/simd.h"
#include "kernels/cpu/base/team.h"
#include "runtime/base/stop.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 4096, LANES = 64, FEW = 16, CHUNK = 1 << 16, MOST_CHUNKS = 1024, FAR = 1 << 24, BROUGHT = 4 };
/* Limits in elements. SHORT: a row that is reduced counts as short if it has fewer elements. NARROW: rows that
 * are not reduced are joined side by side up to this length. */
enum { SHORT = 16, NARROW = 256 };
enum { ABREAST = 4, SHORT_ROW = 256 };
enum { GRAIN = 32768 }; /* minimum number of elements per thread */

/* Return the new value of accumulator a, after element x is combined with it. */
INLINE double
real_sum(double a, double x)
{
    return a + x;
}
INLINE double
real_prod(double a, double x)
{
    return a * x;
}
INLINE double
real_max(double a, double x)
{
    double y = x > a ? x : a; /* gcc compiles this form to one instruction */
    return x != x ? x : y;
}
INLINE double
real_min(double a, double x)
{
    double y = x < a ? x : a; /* gcc compiles this form to one instruction */
    return x != x ? x : y;
}
INLINE float
float_max(float a, float x)
{
    float y = x > a ? x : a; /* gcc compiles this form to one instruction */
    return x != x ? x : y;
}
INLINE float
float_min(float a, float x)
{
    float y = x < a ? x : a; /* gcc compiles this form to one instruction */
    return x != x ? x : y;
}
INLINE int64_t
int_sum(int64_t a, int64_t x)
{
    return (int64_t)((uint64_t)a + (uint64_t)x);
}
INLINE int64_t
int_prod(int64_t a, int64_t x)
{
    return (int64_t)((uint64_t)a * (uint64_t)x);
}
INLINE int64_t
int_max(int64_t a, int64_t x)
{
    return x > a ? x : a;
}
INLINE int64_t
int_min(int64_t a, int64_t x)
{
    return x < a ? x : a;
}

INLINE int32_t
narrow_max(int32_t a, int32_t x)
{
    return x > a ? x : a;
}
INLINE int32_t
narrow_min(int32_t a, int32_t x)
{
    return x < a ? x : a;
}

/* ---- loops over a block ---- */

/* Prefetch distance, bytes. With twice the distance and nothing cached, prefetched lines are evicted before use.
 * Zen 4 does not prefetch here, because its hardware prefetcher is good. */
enum { AHEAD = 4096, LINE = 64 };
#define BRING(x, n)                                                                                                    \
    for (size_t line = 0; asks && line < (n) * sizeof *(x); line += LINE)                                              \
    __builtin_prefetch((const char *)(x) + AHEAD + line)

/* Defines short_NAME, which folds rows of FEW to SHORT_ROW - 1 floats, ABREAST rows at a time, each into its
 * accumulator. The lanes of all rows are combined together, because the operations that combine the lanes of a
 * single row would wait for each other. Lanes are named vectors, which gcc keeps in registers; it would move
 * arrays of lanes to memory and back. */
typedef float four __attribute__((vector_size(16)));
typedef float four_anywhere __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t truths __attribute__((vector_size(16)));
INLINE four
pick(truths condition, four a, four b)
{
    return (four)((condition & (truths)a) | (~condition & (truths)b));
}
#define GREATER(a, x) pick(((x) > (a)) | ((x) != (x)), x, a)
#define LESS(a, x)    pick(((x) < (a)) | ((x) != (x)), x, a)
#define ROWS_ABREAST(name, BEST)                                                                                       \
    VECTOR static void short_##name(const float *x, int64_t apart, int64_t rows, int64_t n, float *a)                  \
    {                                                                                                                  \
        enum { W = 4, EACH = FEW / W };                                                                                \
        for (int64_t r = 0; r < rows; r += ABREAST) {                                                                  \
            const float *row[ABREAST];                                                                                 \
            four v[ABREAST][EACH], s[ABREAST];                                                                         \
            for (int k = 0; k < ABREAST; k++) row[k] = x + MIN(r + k, rows - 1) * apart;                               \
            for (int k = 0; k < ABREAST; k++)                                                                          \
                for (int j = 0; j < EACH; j++) v[k][j] = *(const four_anywhere *)(row[k] + n - FEW + j * W);           \
            for (int64_t i = 0; i + FEW < n; i += FEW)                                                                 \
                for (int k = 0; k < ABREAST; k++)                                                                      \
                    for (int j = 0; j < EACH; j++) {                                                                   \
                        four y = *(const four_anywhere *)(row[k] + i + j * W);                                         \
                        v[k][j] = BEST(v[k][j], y);                                                                    \
                    }                                                                                                  \
            for (int k = 0; k < ABREAST; k++) s[k] = BEST(BEST(v[k][0], v[k][1]), BEST(v[k][2], v[k][3]));             \
            four a01 = __builtin_shufflevector(s[0], s[1], 0, 4, 1, 5),                                                \
                 b01 = __builtin_shufflevector(s[0], s[1], 2, 6, 3, 7);                                                \
            four a23 = __builtin_shufflevector(s[2], s[3], 0, 4, 1, 5),                                                \
                 b23 = __builtin_shufflevector(s[2], s[3], 2, 6, 3, 7);                                                \
            four low = BEST(a01, b01), high = BEST(a23, b23);                                                          \
            four one = __builtin_shufflevector(low, high, 0, 1, 4, 5),                                                 \
                 other = __builtin_shufflevector(low, high, 2, 3, 6, 7);                                               \
            one = BEST(one, other);                                                                                    \
            for (int k = 0; k < MIN(ABREAST, rows - r); k++) a[r + k] = float_##name(a[r + k], one[k]);                \
        }                                                                                                              \
    }
ROWS_ABREAST(max, GREATER)
ROWS_ABREAST(min, LESS)

/* Defines fold_NAME, which folds rows of n elements, each into its accumulator in *a. apart: distance between
 * rows, elements. A row is folded in LANES lanes, or in FEW lanes if it is short. again: an element may be
 * combined twice without harm, so the last vector may overlap the previous one. */
#define FOLD(name, type, acc, combine, again)                                                                          \
    INLINE acc row_##name(const type *x, int64_t n, acc all)                                                           \
    {                                                                                                                  \
        const bool asks = machine_takes_wide();                                                                        \
        int64_t i = 0;                                                                                                 \
        if (n >= LANES) {                                                                                              \
            acc lane[LANES];                                                                                           \
            for (int l = 0; l < LANES; l++) lane[l] = x[l];                                                            \
            for (i = LANES; i + LANES <= n; i += LANES) {                                                              \
                BRING(x + i, LANES);                                                                                   \
                for (int l = 0; l < LANES; l++) lane[l] = combine(lane[l], x[i + l]);                                  \
            }                                                                                                          \
            if (again && i < n) {                                                                                      \
                for (int l = 0; l < LANES; l++) lane[l] = combine(lane[l], x[n - LANES + l]);                          \
                i = n;                                                                                                 \
            }                                                                                                          \
            _Pragma("GCC unroll 6") for (int half = LANES / 2; half > 0;                                               \
                                         half /= 2) /* the loop is unrolled, so that lanes stay in registers */        \
                for (int l = 0; l < half; l++) lane[l] = combine(lane[l], lane[l + half]);                             \
            all = combine(all, lane[0]);                                                                               \
        }                                                                                                              \
        if (n - i >= FEW) {                                                                                            \
            acc lane[FEW];                                                                                             \
            for (int l = 0; l < FEW; l++) lane[l] = x[i + l];                                                          \
            for (i += FEW; i + FEW <= n; i += FEW)                                                                     \
                for (int l = 0; l < FEW; l++) lane[l] = combine(lane[l], x[i + l]);                                    \
            if (again && i < n) {                                                                                      \
                for (int l = 0; l < FEW; l++) lane[l] = combine(lane[l], x[n - FEW + l]);                              \
                i = n;                                                                                                 \
            }                                                                                                          \
            _Pragma("GCC unroll 6") for (int half = FEW / 2; half > 0; half /= 2) for (int l = 0; l < half; l++)       \
                lane[l] = combine(lane[l], lane[l + half]);                                                            \
            all = combine(all, lane[0]);                                                                               \
        }                                                                                                              \
        for (; i < n; i++) all = combine(all, x[i]);                                                                   \
        return all;                                                                                                    \
    }                                                                                                                  \
    VECTOR static void fold_##name(const void *from, int64_t apart, int64_t rows, int64_t n, void *accumulator)        \
    {                                                                                                                  \
        acc *a = accumulator;                                                                                          \
        for (int64_t r = 0; r < rows; r++) a[r] = row_##name((const type *)from + r * apart, n, a[r]);                 \
    }
/* Defines join_NAME, which combines each of n elements with the accumulator of the same index. */
#define JOIN(name, type, acc, combine)                                                                                 \
    VECTOR static void join_##name(const void *from, int64_t n, void *accumulator)                                     \
    {                                                                                                                  \
        const bool asks = machine_takes_wide();                                                                        \
        const type *x = from;                                                                                          \
        acc *a = accumulator;                                                                                          \
        int64_t i = 0;                                                                                                 \
        for (; i + LANES <= n; i += LANES) {                                                                           \
            BRING(x + i, LANES);                                                                                       \
            for (int l = 0; l < LANES; l++) a[i + l] = combine(a[i + l], x[i + l]);                                    \
        }                                                                                                              \
        for (; i < n; i++) a[i] = combine(a[i], x[i]);                                                                 \
    }
#define BOTH(name, type, acc, combine, again)                                                                          \
    FOLD(name, type, acc, combine, again)                                                                              \
    JOIN(name, type, acc, combine)

static void
fold_f32_sum(const void *x, int64_t apart, int64_t rows, int64_t n, void *accumulator)
{
    fold_sums(x, apart, rows, n, accumulator);
}

static void
fold_f32_prod(const void *x, int64_t apart, int64_t rows, int64_t n, void *accumulator)
{
    for (int64_t r = 0; r < rows; r++) ((double *)accumulator)[r] *= fold_prod((const float *)x + r * apart, n);
}

static void
join_f32_sum_rows(const void *x, int64_t apart, int64_t rows, int64_t n, bool far, void *accumulator)
{
    fold_rows(x, apart, rows, n, far, accumulator);
}

JOIN(f32_sum, float, double, real_sum)
JOIN(f32_prod, float, double, real_prod)
BOTH(f32_max, float, float, float_max, true)
BOTH(f32_min, float, float, float_min, true)
BOTH(f64_sum, double, double, real_sum, false)
BOTH(f64_prod, double, double, real_prod, false)
BOTH(f64_max, double, double, real_max, true)
BOTH(f64_min, double, double, real_min, true)
BOTH(i64_sum, int64_t, int64_t, int_sum, false)
BOTH(i64_prod, int64_t, int64_t, int_prod, false)
BOTH(i64_max, int64_t, int64_t, int_max, true)
BOTH(i64_min, int64_t, int64_t, int_min, true)
BOTH(i32_sum, int32_t, int64_t, int_sum, false)
BOTH(i32_prod, int32_t, int64_t, int_prod, false)
BOTH(i32_max, int32_t, int32_t, narrow_max, true)
BOTH(i32_min, int32_t, int32_t, narrow_min, true)

#define FOLD_ROWS_OF(name)                                                                                             \
    static void fold_f32_##name##_rows(const void *x, int64_t apart, int64_t rows, int64_t n, void *a)                 \
    {                                                                                                                  \
        bool few = n >= FEW && n < SHORT_ROW;                                                                          \
        few ? short_##name(x, apart, rows, n, a) : fold_f32_##name(x, apart, rows, n, a);                              \
    }
FOLD_ROWS_OF(max)
FOLD_ROWS_OF(min)

struct loops_of {
    void (*fold)(const void *x, int64_t apart, int64_t rows, int64_t n, void *a);
    void (*join)(const void *x, int64_t n, void *a);
    /* Combines up to FOLD_ROWS rows with accumulators, and reads the rows in place. far: the rows are in memory,
     * not in a cache. NULL: not available for this type. */
    void (*join_rows)(const void *x, int64_t apart, int64_t rows, int64_t n, bool far, void *a);
};
static const struct loops_of loops_of[NCOMPUTE][NREDUCE] = {
    [COMP_F32] = {[RED_SUM] = {fold_f32_sum, join_f32_sum, join_f32_sum_rows},
                  [RED_PROD] = {fold_f32_prod, join_f32_prod},
                  [RED_MAX] = {fold_f32_max_rows, join_f32_max},
                  [RED_MIN] = {fold_f32_min_rows, join_f32_min}},
    [COMP_F64] = {[RED_SUM] = {fold_f64_sum, join_f64_sum},
                  [RED_PROD] = {fold_f64_prod, join_f64_prod},
                  [RED_MAX] = {fold_f64_max, join_f64_max},
                  [RED_MIN] = {fold_f64_min, join_f64_min}},
    [COMP_I64] = {[RED_SUM] = {fold_i64_sum, join_i64_sum},
                  [RED_PROD] = {fold_i64_prod, join_i64_prod},
                  [RED_MAX] = {fold_i64_max, join_i64_max},
                  [RED_MIN] = {fold_i64_min, join_i64_min}},
    [COMP_I32] = {[RED_SUM] = {fold_i32_sum, join_i32_sum},
                  [RED_PROD] = {fold_i32_prod, join_i32_prod},
                  [RED_MAX] = {fold_i32_max, join_i32_max},
                  [RED_MIN] = {fold_i32_min, join_i32_min}},
};

/* ---- loops ---- */

struct loop {
    /* size: number of iterations; in, out: strides in the operand and in the result, elements; out is 0 if the
     * loop is reduced. */
    int64_t size, in, out;
};
struct reduction {
    const char *x;
    char *y;
    enum dtype in, out;
    enum compute type, wide; /* compute types: `type` of the elements read, `wide` of the accumulators */
    size_t in_bytes, out_bytes, wide_bytes;
    struct loops_of f;
    enum reduce reduce;
    struct loop kept[MAX_DIM], gone[MAX_DIM], row;
    int nkept, ngone;
    bool row_gone, far; /* row_gone: the row is reduced; far: the operand is larger than the caches */
    bool in_place;      /* true: rows are contiguous and have the compute type, so they are read in place */
    /* Products are reduced (products.h), not elements of x. a and c are NULL if they are absent. */
    bool products;
    const char *a, *c;
    /* number of elements of a row (if it is not reduced) that are computed together, at most BLOCK */
    int64_t piece;
};

/* If the innermost loop (the row) is reduced, and the innermost loop that is kept (not reduced) is longer, makes
 * that kept loop the row. Otherwise there would be one call per short row, which is expensive. */
static void
kept_last(struct loop *all, bool *gone, int n)
{
    int k = n - 1;
    while (k >= 0 && gone[k]) k--;
    if (k < 0 || all[k].size <= all[n - 1].size) return;
    struct loop row = all[k];
    for (; k < n - 1; k++) all[k] = all[k + 1], gone[k] = gone[k + 1];
    all[n - 1] = row;
    gone[n - 1] = false;
}

/* Plans the loops of the call, one per group of merged dimensions. The last loop is the row. */
static void
plan_reduction(struct reduction *p, const struct kcall *k)
{
    const struct view *x = &k->in[0];
    int64_t out[MAX_DIM];
    bool gone[MAX_DIM], was_gone = true;
    struct loop all[MAX_DIM + 1];
    bool all_gone[MAX_DIM + 1];
    int n = 0;
    reduced_strides(k, out);
    reduced_dims(k->call, gone);
    for (int d = 0; d < x->ndim; d++) {
        if (x->dim[d] == 1) continue;
        struct loop next = {x->dim[d], x->stride[d], out[d]};
        struct loop *last = n ? &all[n - 1] : NULL;
        if (last && was_gone == gone[d] && last->in == next.in * next.size && last->out == next.out * next.size)
            *last = (struct loop){last->size * next.size, next.in, next.out};
        else
            all_gone[n] = gone[d], all[n++] = next;
        was_gone = gone[d];
    }
    if (n == 0) all_gone[n] = true, all[n++] = (struct loop){1, 1, 0};
    if (all_gone[n - 1] && all[n - 1].size < SHORT) kept_last(all, all_gone, n);
    p->row = all[n - 1];
    p->row_gone = all_gone[n - 1];
    for (int i = 0; i < n - 1; i++)
        if (all_gone[i])
            p->gone[p->ngone++] = all[i];
        else
            p->kept[p->nkept++] = all[i];
}

/* Advances a position through the loops, and updates the offsets *in and *out. Returns false after the last
 * position. */
static bool
advance_loop(const struct loop *loop, int n, int64_t *at, int64_t *in, int64_t *out)
{
    for (int i = n - 1; i >= 0; i--) {
        *in += loop[i].in;
        *out += loop[i].out;
        if (++at[i] < loop[i].size) return true;
        *in -= loop[i].in * loop[i].size;
        *out -= loop[i].out * loop[i].size;
        at[i] = 0;
    }
    return false;
}

/* Returns the type of accumulators: for maxima and minima the type that is read; for sums and products double or
 * i64. */
static enum compute
wide(enum compute type, enum reduce r)
{
    static const enum compute of[NCOMPUTE] = {
        [COMP_F32] = COMP_F64, [COMP_F64] = COMP_F64, [COMP_I64] = COMP_I64, [COMP_I32] = COMP_I64};
    return r == RED_MAX || r == RED_MIN ? type : of[type];
}

/* Sets n accumulators to one number. */
#define FILL(type, number)                                                                                             \
    do {                                                                                                               \
        const type all = (type)(number);                                                                               \
        for (int64_t i = 0; i < n; i++) ((type *)accumulator)[i] = all;                                                \
    } while (0)

static void
start_accumulator(const struct reduction *p, int64_t n, void *accumulator)
{
    if (p->wide == COMP_I64)
        FILL(int64_t, reduce_start_i(p->reduce, p->out));
    else if (p->wide == COMP_I32)
        FILL(int32_t, reduce_start_i(p->reduce, p->out));
    else if (p->wide == COMP_F32)
        FILL(float, reduce_start_f(p->reduce));
    else
        FILL(double, reduce_start_f(p->reduce));
}

/* Returns true if blocks of the reduced elements are in memory already. Products are not. */
static bool
lies_ready(const struct reduction *p)
{
    return p->in_place && !p->products;
}

/* Returns the offset of the element of c that belongs to offset `in` of x. */
static int64_t
center_at(const struct reduction *p, int64_t in)
{
    int64_t at = p->row_gone ? 0 : in / p->row.in % p->row.size * p->row.out;
    for (int k = 0; k < p->nkept; k++) at += in / p->kept[k].in % p->kept[k].size * p->kept[k].out;
    return at;
}

/* Loads the n elements of c for the elements of x from offset `in` on: in a kept row one per element, and again from
 * the row's first element where n elements are several complete rows; in a reduced row only one. */
static void
load_center(const struct reduction *p, int64_t in, int64_t n, char *c)
{
    size_t unit = compute_bytes(p->type);
    int64_t have = p->row_gone ? 1 : MIN(n, p->row.size);
    block_load(p->type, p->in, p->c + center_at(p, in) * (int64_t)p->in_bytes, p->row.out, have, c);
    for (int64_t more; !p->row_gone && have < n; have += more) {
        more = MIN(have, n - have);
        memcpy(c + (size_t)have * unit, c, (size_t)more * unit);
    }
}

/* Sets y to n products, from offset `in` of x on. */
static void
load_products(const struct reduction *p, int64_t in, int64_t n, char *y)
{
    enum { PIECE = 512 };
    double x[PIECE], a[PIECE], c[PIECE];
    int64_t bytes = (int64_t)p->in_bytes, unit = (int64_t)compute_bytes(p->type), step = p->row.in;
    for (int64_t i = 0, some; i < n; i += some) {
        const char *of_x = p->x + (in + i * step) * bytes, *of_a = p->a ? p->a + (in + i * step) * bytes : NULL;
        some = MIN(n - i, PIECE);
        if (!p->in_place) {
            block_load(p->type, p->in, of_x, step, some, x);
            if (of_a) block_load(p->type, p->in, of_a, step, some, a);
            of_x = (char *)x, of_a = of_a ? (char *)a : NULL;
        }
        if (p->c) load_center(p, in + i * step, some, (char *)c);
        products_set(p->type, some, of_x, of_a, p->c ? c : NULL, !p->row_gone, y + i * unit);
    }
}

/* Returns a block of n <= BLOCK elements of the operand, from offset `in` on: in place if possible, else converted
 * into `buffer`. */
static const void *
block_at(const struct reduction *p, int64_t in, int64_t n, void *buffer)
{
    const char *x = p->x + in * (int64_t)p->in_bytes;
    if (lies_ready(p)) return x;
    if (p->products) {
        load_products(p, in, n, buffer);
        return buffer;
    }
    block_load(p->type, p->in, x, p->row.in, n, buffer);
    return buffer;
}

/* Sets `buffer` to the column sums, as floats, of up to FOLD_ROWS rows of 16-bit floats. Returns false if these
 * rows are not supported, or if f32 overflowed. */
static bool
add_halves(const struct reduction *p, int64_t rows, int64_t apart, int64_t in, int64_t n, void *buffer)
{
    if (!dtype_is_half(p->in) || p->reduce != RED_SUM || p->row.in != 1 || p->products) return false;
    return fold_halves(p->in, (const uint16_t *)(const void *)p->x + in, apart, rows, n, buffer);
}

/* Combines some of the `left` remaining rows of n elements with the accumulators. in: offset of the first row;
 * apart: distance between rows, elements. Returns the number of rows combined. */
static int64_t
join_some(const struct reduction *p, int64_t left, int64_t apart, int64_t in, int64_t n, void *buffer,
          void *accumulator)
{
    int64_t most = MIN(left, FOLD_ROWS);
    if (add_halves(p, most, apart, in, n, buffer)) {
        p->f.join(buffer, n, accumulator);
        return most;
    }
    bool ready = lies_ready(p);
    int64_t rows = p->f.join_rows ? MIN(left, ready ? FOLD_ROWS : BROUGHT) : 1;
    const void *x = block_at(p, in, n, buffer);
    for (int64_t r = 1; r < rows && !ready; r++) block_at(p, in + r * apart, n, (float *)buffer + r * n);
    if (rows == 1)
        p->f.join(x, n, accumulator);
    else
        p->f.join_rows(x, ready ? apart : n, rows, n, p->far, accumulator);
    return rows;
}

/* Returns the number of short contiguous rows that are read as one long row; 1: rows are not short. Each position
 * of the long row has its own accumulator; at the end the accumulators of its rows are combined. */
static int64_t
side_by_side(const struct reduction *p, int64_t rows, int64_t apart, int64_t n)
{
    int64_t side = NARROW / n;
    return p->row.in == 1 && apart == n && side > 1 && rows > side ? side : 1;
}

/* Combines all rows of n elements with the accumulators. in: offset of the first row; apart: distance between
 * rows, elements. Returns false if the run was stopped. */
static bool
join_all(const struct reduction *p, int64_t rows, int64_t apart, int64_t in, int64_t n, int64_t *since,
         void *accumulator)
{
    _Alignas(64) double buffer[BLOCK], part[NARROW];
    int64_t side = side_by_side(p, rows, apart, n), long_row = side * n;
    char *to = side > 1 ? (char *)part : accumulator;
    if (side > 1) start_accumulator(p, long_row, part);
    for (int64_t i = 0, m; i < rows; i += m) {
        if (rows - i >= side)
            m = side * join_some(p, (rows - i) / side, side * apart, in + i * apart, long_row, buffer, to);
        else
            m = rows - i, p->f.join(block_at(p, in + i * apart, m * n, buffer), m * n, to);
        if (stop_after(since, m * n * 8)) return false;
    }
    for (int64_t k = 0; k < side && side > 1; k++)
        loops_of[p->wide][p->reduce].join(to + (size_t)(k * n) * p->wide_bytes, n, accumulator);
    return true;
}

/* Folds n elements of each of several reduced rows: the first row from offset `in` on, the others `apart` elements from
 * the row before. Rows that cannot be read in place have at most BLOCK elements and are folded one at a time. */
static void
fold_elements(const struct reduction *p, int64_t in, int64_t apart, int64_t rows, int64_t n, void *buffer, void *to)
{
    size_t at = (size_t)in * p->in_bytes;
    if (!p->products || !p->in_place) {
        p->f.fold(block_at(p, in, n, buffer), apart, rows, n, to);
        return;
    }
    int64_t c = center_at(p, in), c_apart = p->nkept ? p->kept[p->nkept - 1].out : 0;
    products_fold(p->type, rows, n, apart, p->x + at, p->a ? p->a + at : NULL,
                  p->c ? p->c + (size_t)c * p->in_bytes : NULL, c_apart, to);
}

/* Folds a reduced row that starts at offset `in`. Returns false if the run was stopped. */
static bool
fold_row(const struct reduction *p, int64_t in, int64_t *since, void *accumulator)
{
    _Alignas(64) double buffer[BLOCK];
    int64_t block = p->in_place ? CHUNK : BLOCK;
    for (int64_t i = 0; i < p->row.size; i += block) {
        int64_t n = MIN(p->row.size - i, block);
        if (stop_after(since, n * 8)) return false;
        int64_t columns = 0, at = in + i * p->row.in, done = 0;
        for (int64_t rows; n - done >= 2 * LANES; done += rows * LANES, columns += LANES) {
            rows = MIN((n - done) / LANES, FOLD_ROWS);
            if (!add_halves(p, rows, LANES, at + done, LANES, (float *)buffer + columns)) break;
        }
        if (done) p->f.fold(buffer, 0, 1, columns, accumulator);
        if (done < n) fold_elements(p, at + done * p->row.in, 0, 1, n - done, buffer, accumulator);
    }
    return true;
}

/* Accumulates all rows of one kept position (an index over the loops that are not reduced). in: offset of the
 * first row. If rows are kept (the innermost dimension is not reduced), reads n elements of each row, starting at
 * element `first`. If rows are reduced, reads whole rows. */
static void
accumulate(const struct reduction *p, int64_t in, int64_t first, int64_t n, void *accumulator)
{
    int64_t at[MAX_DIM] = {0}, out = 0, since = 0;
    bool several = !p->row_gone && p->ngone > 0; /* true: each result is reduced from several rows */
    int64_t rows = several ? p->gone[p->ngone - 1].size : 1, apart = several ? p->gone[p->ngone - 1].in : 0;
    do {
        bool goes_on = p->row_gone ? fold_row(p, in, &since, accumulator)
                                   : join_all(p, rows, apart, in + first * p->row.in, n, &since, accumulator);
        if (!goes_on) return;
    } while (advance_loop(p->gone, p->ngone - several, at, &in, &out));
}

/* Sets *in and *out to the offsets of kept position i in the operand and in the result, and at[] to its index in
 * each loop. Kept positions are counted over the loops that are not reduced. */
static void
kept_at(const struct reduction *p, int64_t i, int64_t *at, int64_t *in, int64_t *out)
{
    *in = *out = 0;
    for (int k = p->nkept - 1; k >= 0; i /= p->kept[k--].size) {
        at[k] = i % p->kept[k].size;
        *in += at[k] * p->kept[k].in;
        *out += at[k] * p->kept[k].out;
    }
}

/* Computes n results of reduced rows. apart: distance, in the operand, between the first rows of neighbouring
 * results. Rows that can be read in place are folded in memory order and with few calls: one row of each result,
 * then the next row of each. */
static bool
fold_rows_of(const struct reduction *p, int64_t n, int64_t apart, int64_t in, void *accumulator)
{
    bool ready = p->in_place && p->row.size <= CHUNK && (p->ngone == 0 || p->gone[p->ngone - 1].in > apart);
    int64_t at[MAX_DIM] = {0}, out = 0, since = 0, most = ready ? MAX(CHUNK / p->row.size, 1) : 1;
    start_accumulator(p, n, accumulator);
    do {
        for (int64_t k = 0, some; k < n; k += some) {
            char *to = (char *)accumulator + (size_t)k * p->wide_bytes;
            some = MIN(most, n - k);
            if (!ready)
                accumulate(p, in + k * apart, 0, 1, to);
            else if (stop_after(&since, some * p->row.size * 8))
                return false;
            else
                fold_elements(p, in + k * apart, apart, some, p->row.size, NULL, to);
        }
    } while (ready && advance_loop(p->gone, p->ngone, at, &in, &out));
    return true;
}

/* Computes results lo .. hi - 1 of reduced rows. Neighbouring results along the innermost loop that is not
 * reduced are computed together, as many as fit into a block. */
static void
fold_range(void *arg, int64_t lo, int64_t hi)
{
    const struct reduction *p = arg;
    _Alignas(64) double accumulator[BLOCK];
    int64_t at[MAX_DIM] = {0}, in, out, last = p->nkept - 1;
    for (int64_t i = lo, n; i < hi; i += n) {
        kept_at(p, i, at, &in, &out);
        n = last < 0 ? 1 : MIN(MIN(hi - i, BLOCK), p->kept[last].size - at[last]);
        if (!fold_rows_of(p, n, last < 0 ? 0 : p->kept[last].in, in, accumulator)) return;
        block_store(p->wide, p->out, accumulator, n, p->y + out * (int64_t)p->out_bytes,
                    last < 0 ? 1 : p->kept[last].out);
    }
}

/* Computes pieces lo .. hi - 1 of the result rows. Pieces have p->piece elements and are numbered row by row. */
static void
join_range(void *arg, int64_t lo, int64_t hi)
{
    const struct reduction *p = arg;
    _Alignas(64) double accumulator[BLOCK];
    int64_t at[MAX_DIM] = {0}, in, out, width = p->row.size, pieces = (width + p->piece - 1) / p->piece;
    kept_at(p, lo / pieces, at, &in, &out);
    for (int64_t i = lo; i < hi; i++) {
        int64_t j = i % pieces * p->piece, n = MIN(width - j, p->piece);
        start_accumulator(p, n, accumulator);
        accumulate(p, in, j, n, accumulator);
        block_store(p->wide, p->out, accumulator, n, p->y + (out + j * p->row.out) * (int64_t)p->out_bytes, p->row.out);
        if (j + n == width) advance_loop(p->kept, p->nkept, at, &in, &out);
    }
}

/* Computes each result on one thread, so that the bits do not depend on the number of threads. */
static void
reduce_each(struct reduction *p, int threads, int64_t numel)
{
    int64_t width = p->row_gone ? 1 : p->row.size, kept = 1;
    for (int k = 0; k < p->nkept; k++) kept *= p->kept[k].size;
    /* half a block, so that BROUGHT rows of converted floats fit into the buffer of join_all() */
    p->piece = lies_ready(p) ? BLOCK : BLOCK / 2;
    if (kept < threads) p->piece = MIN(MAX((width / threads + 63) / 64 * 64, 64), p->piece);
    int64_t units = kept * ((width + p->piece - 1) / p->piece);
    team_run(threads, units, 1 + GRAIN * units / numel, p->row_gone ? fold_range : join_range, p);
}

/* ---- one result of many elements: computed in chunks whose size does not depend on the number of threads ---- */

struct chunks {
    const struct reduction *p;
    int64_t size;
    char *of; /* accumulators, one per chunk */
};

static void
chunk_range(void *arg, int64_t lo, int64_t hi)
{
    const struct chunks *c = arg;
    struct reduction part = *c->p;
    for (int64_t i = lo; i < hi; i++) {
        part.row.size = MIN(c->size, c->p->row.size - i * c->size);
        char *to = c->of + (size_t)i * part.wide_bytes;
        start_accumulator(&part, 1, to);
        accumulate(&part, i * c->size * part.row.in, 0, 1, to);
    }
}

static void
reduce_one(const struct reduction *p, int threads)
{
    double of[MOST_CHUNKS], result;
    int64_t size = MAX(CHUNK, (p->row.size + MOST_CHUNKS - 1) / MOST_CHUNKS);
    int64_t n = (p->row.size + size - 1) / size;
    team_run(threads, n, 1, chunk_range, &(struct chunks){p, size, (char *)of});
    start_accumulator(p, 1, &result);
    loops_of[p->wide][p->reduce].fold(of, 0, 1, n, &result);
    block_store(p->wide, p->out, &result, 1, p->y, 1);
}

/* Sets every result to the identity, because the operand is empty. */
static void
fill_neutral(const struct reduction *p, const struct view *y)
{
    int64_t n = view_numel(y);
    double one;
    start_accumulator(p, 1, &one);
    for (int64_t i = 0; i < n; i++)
        block_store(p->wide, p->out, &one, 1, (char *)y->data + i * (int64_t)p->out_bytes, 1);
}

static bool
reduce_accepts(const struct kcall *k)
{
    return view_is_dense(&k->out[0]);
}

/* Completes the description p of a reduction, which has its operands, and computes it. */
static int
run_reduction(const struct kcall *k, struct reduction *p)
{
    const struct view *x = &k->in[0], *y = &k->out[0];
    p->x = x->data;
    p->y = y->data;
    p->in = x->dtype;
    p->out = y->dtype;
    p->in_bytes = dtype_bytes(p->in);
    p->out_bytes = dtype_bytes(p->out);
    p->type = compute_narrow(p->in) ? COMP_I32 : compute_of(p->in);
    p->wide = wide(p->type, p->reduce);
    p->wide_bytes = compute_bytes(p->wide);
    p->f = loops_of[p->type][p->reduce];
    p->far = view_numel(x) * (int64_t)p->in_bytes > FAR;
    if (view_numel(x) == 0) {
        fill_neutral(p, y);
        return 0;
    }
    plan_reduction(p, k);
    p->in_place = p->row.in == 1 && p->in == compute_dtype(p->type);
    if (p->nkept == 0 && p->ngone == 0 && p->row_gone && p->row.size >= 2 * CHUNK)
        reduce_one(p, k->threads);
    else
        reduce_each(p, k->threads, view_numel(x));
    return 0;
}

static int
reduce_run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    return run_reduction(k, &(struct reduction){.reduce = k->call->op->host.folds});
}

static int
products_run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    const struct view *a = product_operand(k, PRODUCT_A), *c = product_operand(k, PRODUCT_C);
    return run_reduction(
        k, &(struct reduction){.reduce = RED_SUM, .products = true, .a = a ? a->data : NULL, .c = c ? c->data : NULL});
}

static bool
products_accepts(const struct kcall *k)
{
    for (int i = 1; i < k->call->nin; i++)
        if (k->in[i].dtype != DT_NONE && k->in[i].dtype != k->in[0].dtype) return false;
    return view_is_dense(&k->out[0]);
}

const struct kernel_variant reduce_variants[] = {{"simd", .accepts = reduce_accepts, .run = reduce_run}, {NULL}};
const struct kernel_variant reduce_products[] = {
    {"simd", .dense_in = true, .accepts = products_accepts, .run = products_run}, {NULL}};
