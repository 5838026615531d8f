/* lines.c - iterates over the lines of tensors along an axis. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/rows/lines.h"

#include "kernels/cpu/base/transpose.h"
#include "kernels/cpu/rows/rows.h"
#include "runtime/base/simd.h"
#include "runtime/base/stop.h"
#include "kernels/cpu/base/team.h"
#include "kernels/cpu/math/vmath.h"
#include "kernels/cpu/math/vmath_f64.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 1024, SHORT = 4 * BLOCK, GRAIN = 16384 };
/* TOGETHER: maximum number of neighbouring lines that are copied together; FEW: number of f32 in a cache line. The
 * other constants are in elements. CELLS: size of a workspace. PAGE_CELLS: half a page of f32. CACHE_CELLS:
 * maximum size of a group of up to FEW neighbouring lines, so that it stays in a cache; MANY_CELLS: maximum size
 * of a larger group. */
enum { TOGETHER = 64, FEW = 16, CELLS = 1024, PAGE_CELLS = 512, CACHE_CELLS = 1 << 17, MANY_CELLS = 1 << 16 };

struct lines
lines_of(const struct view *v, int axis)
{
    struct lines l = {1, axis < v->ndim ? v->dim[axis] : 1, 1}; /* a scalar is a line of one element */
    for (int d = 0; d < axis; d++) l.outer *= v->dim[d];
    for (int d = axis + 1; d < v->ndim; d++) l.inner *= v->dim[d];
    return l;
}

bool
lines_over(const struct view *v, const bool *gone, struct lines *l)
{
    *l = (struct lines){1, 1, 1};
    for (int d = 0; d < v->ndim; d++) {
        if (v->dim[d] == 1) continue;
        if (gone[d] && l->inner != 1) return false;
        *(gone[d] ? &l->size : l->size > 1 ? &l->inner : &l->outer) *= v->dim[d];
    }
    return true;
}

/* ---- loops over doubles ---- */

enum { LANES = 32 };

INLINE double
greater_f64(double a, double b)
{
    return a > b ? a : b;
}

VECTOR static double
max_block(int64_t n, const double *x)
{
    double lane[LANES], max = -INFINITY;
    int64_t i = 0;
    for (int l = 0; l < LANES; l++) lane[l] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] = greater_f64(x[i + l], lane[l]);
    for (; i < n; i++) max = greater_f64(x[i], max);
    for (int l = 0; l < LANES; l++) max = greater_f64(lane[l], max);
    return max;
}

VECTOR static double
sum_line_block(int64_t n, const double *x)
{
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += x[i + l];
    for (; i < n; i++) sum += x[i];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) lane[l] += lane[l + half];
    return sum + lane[0];
}

VECTOR static double
dot_block(int64_t n, const double *x, const double *y)
{
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += x[i + l] * y[i + l];
    for (; i < n; i++) sum += x[i] * y[i];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) lane[l] += lane[l + half];
    return sum + lane[0];
}

VECTOR static void
subtract_two(int64_t n, const double *x, double first, double then, double *y)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) y[i] = x[i] - first - then;
}

static void
exp_block(int64_t n, const double *x, double shift, double *y)
{
    subtract_two(n, x, shift, 0, y);
    vec_exp_f64(n, y, y);
}

VECTOR static void
affine(int64_t n, double scale, const double *x, double shift, double *y)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) y[i] = scale * x[i] + shift;
}

/* Sets z = x (y - shift). */
VECTOR static void
times_less(int64_t n, const double *x, const double *y, double shift, double *z)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) z[i] = x[i] * (y[i] - shift);
}

static void
softmax_grads(int64_t n, int64_t count, const double *x, const double *y, double *z)
{
    for (; count > 0; count--, x += n, y += n, z += n) times_less(n, x, y, dot_block(n, x, y), z);
}

/* ---- loops over floats that rows.h does not have ---- */

VECTOR static void
times_less_f32(int64_t n, const float *x, const float *y, float shift, float *z)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) z[i] = x[i] * (y[i] - shift);
}

VECTOR static void
less_f32(int64_t n, const float *x, float first, float then, float *y)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) y[i] = x[i] - first - then;
}

static double
log_f32(double x)
{
    return logf((float)x);
}

static void
logs_f32(int64_t n, double *x)
{
    float y[LINES_TOGETHER] = {0};
    for (int64_t i = 0; i < n; i++) y[i] = (float)x[i];
    vec_log(n, y, y);
    for (int64_t i = 0; i < n; i++) x[i] = y[i];
}

static void
logs_f64(int64_t n, double *x)
{
    for (int64_t i = 0; i < n; i++) x[i] = log(x[i]);
}

static void
exps_f64(int64_t n, const double *x, double first, double then, double scale, double *y)
{
    subtract_two(n, x, first, then, y);
    vec_exp_f64(n, y, y);
    affine(n, scale, y, 0, y);
}

/* Sets y = e^(x - shift) for any x. */
static void
exp_any_f32(int64_t n, const float *x, float shift, float *y)
{
    vec_affine(n, 1, x, -shift, y);
    vec_exp(n, y, y);
}

/* ---- loops over one block, and over lines block by block ---- */

#define OF_A_BLOCK(type, suffix, max_of, sum_of, dot_of, exp_of, exp_ahead, exp_any, exps_of, affine_of, less_of,      \
                   times_less_of, softmax_grads_of)                                                                    \
    static double block_max_##suffix(int64_t n, const void *x) { return max_of(n, x); }                                \
    static double block_sum_##suffix(int64_t n, const void *from, double shift)                                        \
    {                                                                                                                  \
        const type *x = from;                                                                                          \
        type workspace[BLOCK];                                                                                         \
        if (shift != 0) affine_of(n, 1, x, (type)-shift, workspace);                                                   \
        double sum = sum_of(n, shift != 0 ? workspace : x);                                                            \
        if (isfinite(sum)) return sum;                                                                                 \
        sum = 0; /* the f32 sum of finite terms may overflow */                                                        \
        for (int64_t i = 0; i < n; i++) sum += (double)x[i] - shift;                                                   \
        return sum;                                                                                                    \
    }                                                                                                                  \
    static double block_dot_##suffix(int64_t n, const void *x, const void *y) { return dot_of(n, x, y); }              \
    static double block_exp_sum_##suffix(int64_t n, const void *x, double shift, void *to)                             \
    {                                                                                                                  \
        type workspace[BLOCK], *y = to ? to : workspace;                                                               \
        exp_of(n, x, (type)shift, y);                                                                                  \
        return sum_of(n, y);                                                                                           \
    }                                                                                                                  \
    static double block_max_exp_sum_##suffix(int64_t n, const void *x, double *max)                                    \
    {                                                                                                                  \
        *max = max_of(n, x);                                                                                           \
        return block_exp_sum_##suffix(n, x, *max, NULL);                                                               \
    }                                                                                                                  \
    static void block_join_##suffix(int64_t n, const void *x, double *max, double *sum)                                \
    {                                                                                                                  \
        double most = greater_f64(max_of(n, x), *max);                                                                 \
        if (most > *max) *sum *= exp(*max - most);                                                                     \
        type workspace[BLOCK];                                                                                         \
        exp_ahead(n, x, most > -INFINITY ? (type)most : 0, workspace);                                                 \
        *sum += sum_of(n, workspace);                                                                                  \
        *max = most;                                                                                                   \
    }                                                                                                                  \
    static void block_exp_sums_##suffix(int64_t n, int64_t count, const void *from, const double *shift, double *sum)  \
    {                                                                                                                  \
        const type *x = from;                                                                                          \
        type workspace[SHORT];                                                                                         \
        for (int64_t l = 0; l < count; l++) exp_of(n, x + l * n, (type)shift[l], workspace + l * n);                   \
        for (int64_t l = 0; l < count; l++) sum[l] = sum_of(n, workspace + l * n);                                     \
    }                                                                                                                  \
    static double block_exp_sum_any_##suffix(int64_t n, const void *x, double shift)                                   \
    {                                                                                                                  \
        type workspace[BLOCK];                                                                                         \
        exp_any(n, x, (type)shift, workspace);                                                                         \
        return sum_of(n, workspace);                                                                                   \
    }                                                                                                                  \
    static void block_exps_##suffix(int64_t n, const void *x, double first, double then, double scale, void *y)        \
    {                                                                                                                  \
        exps_of(n, x, (type)first, (type)then, (type)scale, y);                                                        \
    }                                                                                                                  \
    static void block_affine_##suffix(int64_t n, double scale, const void *x, double shift, void *y)                   \
    {                                                                                                                  \
        affine_of(n, (type)scale, x, (type)shift, y);                                                                  \
    }                                                                                                                  \
    static void block_minus_##suffix(int64_t n, const void *x, double first, double then, void *y)                     \
    {                                                                                                                  \
        less_of(n, x, (type)first, (type)then, y);                                                                     \
    }                                                                                                                  \
    static void block_times_less_##suffix(int64_t n, const void *x, const void *y, double shift, void *z)              \
    {                                                                                                                  \
        times_less_of(n, x, y, (type)shift, z);                                                                        \
    }                                                                                                                  \
    static void block_softmax_grads_##suffix(int64_t n, int64_t count, const void *x, const void *y, void *z)          \
    {                                                                                                                  \
        softmax_grads_of(n, count, x, y, z);                                                                           \
    }
OF_A_BLOCK(float, f32, vec_max, vec_sum, vec_dot, vec_exp_below, vec_exp_ahead, exp_any_f32, vec_exps, vec_affine,
           less_f32, times_less_f32, vec_softmax_grads)
OF_A_BLOCK(double, f64, max_block, sum_line_block, dot_block, exp_block, exp_block, exp_block, exps_f64, affine,
           subtract_two, times_less, softmax_grads)

/* Runs `of` for each block of a line of n elements; i: first element of the block; m: number of its elements. */
#define EACH_BLOCK(of)                                                                                                 \
    for (int64_t i = 0, m; i < n && stop_passes(i); i += m) {                                                          \
        m = MIN(n - i, BLOCK);                                                                                         \
        of;                                                                                                            \
    }
#define BY_BLOCKS(type, suffix)                                                                                        \
    static double max_##suffix(int64_t n, const void *from)                                                            \
    {                                                                                                                  \
        const type *x = from;                                                                                          \
        double max = -INFINITY;                                                                                        \
        EACH_BLOCK(max = greater_f64(block_max_##suffix(m, x + i), max))                                               \
        return max;                                                                                                    \
    }                                                                                                                  \
    static double sum_##suffix(int64_t n, const void *from, double shift)                                              \
    {                                                                                                                  \
        const type *x = from;                                                                                          \
        double sum = 0;                                                                                                \
        EACH_BLOCK(sum += block_sum_##suffix(m, x + i, shift))                                                         \
        return sum;                                                                                                    \
    }                                                                                                                  \
    static double exp_sum_##suffix(int64_t n, const void *from, double shift, void *to)                                \
    {                                                                                                                  \
        const type *x = from;                                                                                          \
        double sum = 0;                                                                                                \
        EACH_BLOCK(sum += block_exp_sum_##suffix(m, x + i, shift, to ? (type *)to + i : NULL))                         \
        return sum;                                                                                                    \
    }                                                                                                                  \
    static double max_exp_sum_##suffix(int64_t n, const void *from, double *max)                                       \
    {                                                                                                                  \
        const type *x = from;                                                                                          \
        double sum = 0;                                                                                                \
        *max = -INFINITY;                                                                                              \
        EACH_BLOCK(block_join_##suffix(m, x + i, max, &sum))                                                           \
        return n == 0 || *max > -INFINITY ? sum : NAN;                                                                 \
    }                                                                                                                  \
    static void exp_sums_##suffix(int64_t n, int64_t count, const void *from, const double *shift, double *sum)        \
    {                                                                                                                  \
        for (int64_t l = 0; l < count; l++) sum[l] = exp_sum_##suffix(n, (const type *)from + l * n, shift[l], NULL);  \
    }                                                                                                                  \
    static double exp_sum_any_##suffix(int64_t n, const void *from, double shift)                                      \
    {                                                                                                                  \
        const type *x = from;                                                                                          \
        double sum = 0;                                                                                                \
        EACH_BLOCK(sum += block_exp_sum_any_##suffix(m, x + i, shift))                                                 \
        return sum;                                                                                                    \
    }                                                                                                                  \
    static void exps_lines_##suffix(int64_t n, const void *from, double first, double then, double scale, void *to)    \
    {                                                                                                                  \
        const type *x = from;                                                                                          \
        EACH_BLOCK(block_exps_##suffix(m, x + i, first, then, scale, (type *)to + i))                                  \
    }                                                                                                                  \
    static void affine_##suffix(int64_t n, double scale, const void *from, double shift, void *to)                     \
    {                                                                                                                  \
        const type *x = from;                                                                                          \
        EACH_BLOCK(block_affine_##suffix(m, scale, x + i, shift, (type *)to + i))                                      \
    }                                                                                                                  \
    static void minus_##suffix(int64_t n, const void *from, double first, double then, void *to)                       \
    {                                                                                                                  \
        const type *x = from;                                                                                          \
        EACH_BLOCK(block_minus_##suffix(m, x + i, first, then, (type *)to + i))                                        \
    }                                                                                                                  \
    static void softmax_grads_##suffix(int64_t n, int64_t count, const void *from, const void *beside, void *to)       \
    {                                                                                                                  \
        for (int64_t l = 0; l < count; l++) {                                                                          \
            const type *x = (const type *)from + l * n, *y = (const type *)beside + l * n;                             \
            double sum = 0;                                                                                            \
            EACH_BLOCK(sum += block_dot_##suffix(m, x + i, y + i))                                                     \
            EACH_BLOCK(block_times_less_##suffix(m, x + i, y + i, sum, (type *)to + l * n + i))                        \
        }                                                                                                              \
    }
BY_BLOCKS(float, f32)
BY_BLOCKS(double, f64)

static const struct reals reals_of[NCOMPUTE] = {
    [COMP_F32] = {max_f32, sum_f32, exp_sum_f32, max_exp_sum_f32, exp_sums_f32, exp_sum_any_f32, exps_lines_f32,
                  affine_f32, minus_f32, log_f32, logs_f32, softmax_grads_f32},
    [COMP_F64] = {max_f64, sum_f64, exp_sum_f64, max_exp_sum_f64, exp_sums_f64, exp_sum_any_f64, exps_lines_f64,
                  affine_f64, minus_f64, log, logs_f64, softmax_grads_f64},
};
/* Functions for lines that fit into one block. They omit the loop over blocks, because its overhead matters for
 * short lines. */
static const struct reals reals_of_block[NCOMPUTE] = {
    [COMP_F32] = {block_max_f32, block_sum_f32, block_exp_sum_f32, block_max_exp_sum_f32, block_exp_sums_f32,
                  block_exp_sum_any_f32, block_exps_f32, block_affine_f32, block_minus_f32, log_f32, logs_f32,
                  block_softmax_grads_f32},
    [COMP_F64] = {block_max_f64, block_sum_f64, block_exp_sum_f64, block_max_exp_sum_f64, block_exp_sums_f64,
                  block_exp_sum_any_f64, block_exps_f64, block_affine_f64, block_minus_f64, log, logs_f64,
                  block_softmax_grads_f64},
};

/* ---- interleaved lines ---- */

/* Transposes: y[c][i] = x[i][c] for i < n, c < width. */
static void
turn_f64(int64_t n, int64_t width, const double *x, int64_t x_pitch, double *y, int64_t y_pitch)
{
    enum { TILE = 8 };
    for (int64_t from = 0; from < n; from += TILE)
        for (int64_t c = 0; c < width; c++)
            for (int64_t i = from; i < MIN(from + TILE, n); i++) y[c * y_pitch + i] = x[i * x_pitch + c];
}

/* Copies `width` neighbouring lines, starting at element `at` of v, to rows of n elements in `to`. Elements of
 * other dtypes are converted, one workspace at a time. */
static void
turn_in(const struct view *v, int64_t at, int64_t n, int64_t pitch, int64_t width, void *to)
{
    double workspace[CELLS];
    int64_t bytes = (int64_t)dtype_bytes(v->dtype);
    enum compute type = compute_of(v->dtype);
    const char *from = (const char *)v->data + at * bytes;
    if (pitch == 1) {
        block_load(type, v->dtype, from, 1, n, to);
    } else if (v->dtype == DT_F32) {
        /* Copies FEW elements of every line, then the next FEW of every line, so that all data of a cache line is
         * used while it is cached. */
        for (int64_t i = 0; i < n; i += FEW)
            transpose_cols(MIN(n - i, FEW), width, (const float *)from + i * pitch, pitch, (float *)to + i, n);
    } else if (v->dtype == DT_F64) {
        turn_f64(n, width, (const double *)from, pitch, to, n);
    } else {
        for (int64_t i = 0, m; i < n; i += m) {
            m = MIN(n - i, CELLS / width);
            for (int64_t j = 0; j < m; j++)
                block_load(type, v->dtype, from + (i + j) * pitch * bytes, 1, width, (float *)workspace + j * width);
            transpose_cols(m, width, (const float *)workspace, width, (float *)to + i, n);
        }
    }
}

static void
turn_out(const struct view *v, int64_t at, int64_t n, int64_t pitch, int64_t width, const void *from)
{
    double workspace[CELLS];
    int64_t bytes = (int64_t)dtype_bytes(v->dtype);
    char *to = (char *)v->data + at * bytes;
    if (pitch == 1) {
        block_store(COMP_F32, v->dtype, from, n, to, 1);
    } else if (v->dtype == DT_F32) {
        transpose_cols(width, n, from, n, (float *)to, pitch);
    } else if (v->dtype == DT_F64) {
        turn_f64(width, n, from, n, (double *)to, pitch);
    } else {
        for (int64_t i = 0, m; i < n; i += m) {
            m = MIN(n - i, CELLS / width);
            transpose_cols(width, m, (const float *)from + i, n, (float *)workspace, width);
            for (int64_t j = 0; j < m; j++)
                block_store(COMP_F32, v->dtype, (const float *)workspace + j * width, width,
                            to + (i + j) * pitch * bytes, 1);
        }
    }
}

/* ---- the call ---- */

/* Returns true if all views have the same compute type, f32 or f64. */
static bool
are_alike(const struct line_call *c)
{
    enum compute type = compute_of((enum dtype)c->view[0]->dtype);
    for (int i = 0; i < c->nview; i++)
        if (compute_of((enum dtype)c->view[i]->dtype) != type) return false;
    return type != COMP_I64;
}

bool
lines_accepts(const struct kcall *k)
{
    struct line_call c;
    for (int i = 0; i < k->call->nout; i++)
        if (!view_is_dense(&k->out[i])) return false;
    return k->call->op->host.lines(k, &c) && are_alike(&c);
}

/* Returns true if a view's lines are contiguous in memory, in the compute type. */
static bool
in_place(const struct line_call *c, int i)
{
    enum dtype d = (enum dtype)c->view[i]->dtype;
    return c->l.inner == 1 && d == compute_dtype(compute_of(d));
}

/* Returns the number of neighbouring lines that are copied together. It is as many as stay in a cache, at most
 * FEW. If consecutive elements of a line are at least PAGE_CELLS apart, it is at most TOGETHER. */
static int64_t
neighbours(const struct line_call *c)
{
    int64_t size = MAX(c->l.size, 1), few = MAX(MIN(CACHE_CELLS / size, FEW), 1);
    if (c->l.inner >= PAGE_CELLS) few = MAX(few, MIN(MANY_CELLS / size, TOGETHER));
    return MIN(few, c->l.inner);
}

/* Returns the bytes of scratch per thread for view i. */
static int64_t
line_room(const struct line_call *c, int i)
{
    if (in_place(c, i)) return 0;
    int64_t bytes = (int64_t)compute_bytes(compute_of((enum dtype)c->view[i]->dtype));
    return (neighbours(c) * c->l.size * bytes + 63) / 64 * 64;
}

static int64_t
room_of_all(const struct line_call *c)
{
    int64_t bytes = 0;
    for (int i = 0; i < c->nview; i++) bytes += line_room(c, i);
    return bytes;
}

int
lines_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct line_call c;
    UNUSED(state);
    k->call->op->host.lines(k, &c);
    *scratch_bytes = (size_t)(room_of_all(&c) * k->threads);
    return 0;
}

/* How run_group() accesses the lines of one view. */
struct side {
    bool in_place;
    char *data;
    /* line_bytes: size of a line in the compute type, bytes. room: scratch per thread, bytes. */
    int64_t line_bytes, room;
};

struct work {
    const struct line_call *c;
    const struct kcall *k;
    const struct reals *f;
    struct side side[LINE_VIEWS];
    /* step: number of neighbouring lines in a group. per: number of groups per outer position. room: size of a
     * thread's scratch, bytes. */
    int64_t step, per, room;
    bool in_place; /* true: the lines of all views are used in place */
};

static struct work
line_work(const struct line_call *c, const struct kcall *k)
{
    struct work w = {.c = c, .k = k, .step = neighbours(c), .in_place = true};
    enum compute type = compute_of((enum dtype)c->view[0]->dtype);
    w.f = c->l.size <= BLOCK ? &reals_of_block[type] : &reals_of[type];
    while (w.step > FEW && c->l.outer * (c->l.inner / w.step) < 2 * k->threads) w.step /= 2;
    w.per = (c->l.inner + w.step - 1) / w.step;
    for (int i = 0; i < c->nview; i++) {
        int64_t bytes = (int64_t)compute_bytes(type);
        w.side[i] = (struct side){in_place(c, i), c->view[i]->data, c->l.size * bytes, line_room(c, i)};
        w.room += w.side[i].room;
        w.in_place = w.in_place && w.side[i].in_place;
    }
    return w;
}

/* Computes `count` consecutive lines, starting at line r. line: address of line r in each view. If the call has
 * some(), passes it several short lines at once, as many as stay in the innermost cache. */
static void
each_line(const struct work *w, int64_t r, int64_t count, void **line)
{
    const struct line_call *c = w->c;
    int64_t n = c->l.size, together = c->some ? MAX(MIN(SHORT / MAX(n, 1), LINES_TOGETHER), 1) : 1;
    for (int64_t l = 0, some; l < count; l += some) {
        some = MIN(together, count - l);
        if (c->some)
            c->some(w->k, w->f, r + l, n, line, some);
        else
            c->one(w->k, w->f, r + l, n, line);
        for (int i = 0; i < c->nview; i++) line[i] = (char *)line[i] + some * w->side[i].line_bytes;
    }
}

/* Computes `width` neighbouring lines, starting at position (outer, inner). */
static void
run_group(const struct work *w, int64_t outer, int64_t inner, int64_t width, char *scratch)
{
    const struct line_call *c = w->c;
    void *line[LINE_VIEWS], *first[LINE_VIEWS];
    int64_t at = outer * c->l.size * c->l.inner + inner, n = c->l.size;
    for (int i = 0; i < c->nview; i++) {
        const struct side *s = &w->side[i];
        first[i] = s->in_place ? s->data + outer * s->line_bytes : scratch;
        scratch += s->room;
        if (!s->in_place && !(c->out >> i & 1)) turn_in(c->view[i], at, n, c->l.inner, width, first[i]);
    }
    memcpy(line, first, (size_t)c->nview * sizeof line[0]);
    each_line(w, outer * c->l.inner + inner, width, line);
    for (int i = 0; i < c->nview; i++)
        if (!w->side[i].in_place && c->out >> i & 1) turn_out(c->view[i], at, n, c->l.inner, width, first[i]);
}

/* Computes contiguous lines in place, without copies, so that short lines have little overhead. */
static void
run_in_place(const struct work *w, int64_t lo, int64_t hi)
{
    void *line[LINE_VIEWS];
    for (int i = 0; i < w->c->nview; i++) line[i] = w->side[i].data + lo * w->side[i].line_bytes;
    each_line(w, lo, hi - lo, line);
}

static void
run_line_groups(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    const struct work *w = arg;
    char *scratch = (char *)w->k->scratch + share * w->room;
    for (int64_t g = lo; g < hi && !w->in_place; g++) {
        int64_t from = g % w->per * w->step;
        run_group(w, g / w->per, from, MIN(w->c->l.inner - from, w->step), scratch);
    }
    if (w->in_place) run_in_place(w, lo, hi);
}

int
lines_run(const struct kcall *k, const void *state)
{
    struct line_call c;
    UNUSED(state);
    k->call->op->host.lines(k, &c);
    if (c.l.outer == 0 || c.l.inner == 0) return 0;
    struct work w = line_work(&c, k);
    team_shares(k->threads, c.l.outer * w.per, 1 + GRAIN / MAX(w.step * c.l.size, 1), run_line_groups, &w);
    return 0;
}

const struct kernel_variant lines_variants[] = {LINES_ROW, {NULL}};
