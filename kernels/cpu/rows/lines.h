/* lines.h - iterates over the lines of tensors along an axis. Each line is passed as n contiguous floats or doubles.
 *
 * An operator defines its computation for one line. lines_run() copies lines that are not contiguous to scratch, and
 * copies results back. It copies up to 64 neighbouring lines together, so that each cache line is read once. f32,
 * bf16 and f16 are computed as floats, f64 as doubles. Any thread: calls keep no state, and the caller owns all
 * memory. */
#ifndef RILLE_KERNELS_CPU_LINES_H
#define RILLE_KERNELS_CPU_LINES_H

#include "kernels/cpu/base/convert.h"
#include "runtime/graph/op.h"

/* A dense tensor seen as [outer, size of axis, inner]: element (o, i, k) is at (o * size + i) * inner + k. */
struct lines {
    int64_t outer, size, inner;
};
struct lines lines_of(const struct view *v, int axis);
/* Sets *l to the lines along all dimensions d for which gone[d] is true, merged into one axis. Returns false if
 * these dimensions are not adjacent. */
bool lines_over(const struct view *v, const bool *gone, struct lines *l);

enum { LINE_VIEWS = 4, LINES_TOGETHER = 16 };

/* Functions that process n elements of one type, float or double. Scalar arguments are double; the functions first
 * round them to the type. y may be x. Sums are accumulated in lanes within a block of 1024 elements; the sums of
 * blocks are added in double. */
struct reals {
    double (*max)(int64_t n, const void *x);               /* returns the maximum; ignores NaN */
    double (*sum)(int64_t n, const void *x, double shift); /* returns the sum of x - shift */
    /* Sets y = exp(x - shift) for x <= shift, and returns the sum of y. y NULL: computes only the sum. */
    double (*exp_sum)(int64_t n, const void *x, double shift, void *y);
    /* Sets *max to the maximum, and returns the sum of exp(x - max), in one pass over a line. Each block uses the
     * maximum of all blocks so far; a new maximum rescales the earlier sum. */
    double (*max_exp_sum)(int64_t n, const void *x, double *max);
    /* Sets one sum per line for `count` consecutive lines (lines_fn). Each sum is that of exp_sum() with y NULL. */
    void (*exp_sums)(int64_t n, int64_t count, const void *x, const double *shift, double *sum);
    double (*exp_sum_any)(int64_t n, const void *x, double shift); /* returns the sum of exp(x - shift) for any x */
    /* Sets y = scale exp((x - first) - then) for x <= first + then. */
    void (*exps)(int64_t n, const void *x, double first, double then, double scale, void *y);
    void (*affine)(int64_t n, double scale, const void *x, double shift, void *y); /* sets y = scale x + shift */
    void (*minus)(int64_t n, const void *x, double first, double then, void *y);   /* sets y = (x - first) - then */
    double (*log)(double x);
    void (*logs)(int64_t n, double *x); /* replaces x by its logarithms; n <= LINES_TOGETHER */
    /* Sets `to` = x (y - sum(x y)) for `count` consecutive lines of n elements; each line has its own sum. */
    void (*softmax_grads)(int64_t n, int64_t count, const void *x, const void *y, void *to);
};

/* Computes line r. line[i]: address of the line's elements in view i. Lines are numbered from the innermost position
 * outwards, so line r + 1 is at the next inner position. */
typedef void line_fn(const struct kcall *k, const struct reals *f, int64_t r, int64_t n, void *const *line);
/* Computes `count` consecutive lines, starting at line r. In each view the lines are n elements apart. A function
 * that interleaves several lines can hide latencies. */
typedef void lines_fn(const struct kcall *k, const struct reals *f, int64_t r, int64_t n, void *const *line,
                      int64_t count);

/* A function that is called for every line of some dense views. All views have equal numbers and sizes of lines. */
struct line_call {
    struct lines l;
    int nview;
    const struct view *view[LINE_VIEWS];
    unsigned out; /* bit i is set if the function writes view i */
    line_fn *one;
    lines_fn *some; /* function for several lines, used instead of `one`; NULL: none */
};
/* Returns a call of a function that reads a line of x along an axis, and writes the same line of y. */
static inline struct line_call
line_map(const struct view *x, const struct view *y, int axis, line_fn *one)
{
    return (struct line_call){.l = lines_of(x, axis), .nview = 2, .view = {x, y}, .out = 2, .one = one};
}

/* Implement the kernel variant of operators whose record has the callback lines(). Either all views are floats, or
 * all are doubles. */
bool lines_accepts(const struct kcall *k);
int lines_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int lines_run(const struct kcall *k, const void *state);

#define LINES_ROW                                                                                                      \
    {                                                                                                                  \
        "lines", .dense_in = true, .accepts = lines_accepts, .prepare = lines_prepare, .run = lines_run                \
    }
extern const struct kernel_variant lines_variants[]; /* LINES_ROW alone */

/* Read and write element r of a view that has one number per line. */
static inline void
line_put(const struct view *v, int64_t r, double x)
{
    elem_set_f((enum dtype)v->dtype, v->data, r, x);
}
static inline double
line_get(const struct view *v, int64_t r)
{
    return elem_get_f((enum dtype)v->dtype, v->data, r);
}
/* Read and write element i of a line. */
static inline double
line_at(const struct view *v, const void *line, int64_t i)
{
    return v->dtype == DT_F64 ? ((const double *)line)[i] : ((const float *)line)[i];
}
static inline void
line_set(const struct view *v, void *line, int64_t i, double x)
{
    if (v->dtype == DT_F64)
        ((double *)line)[i] = x;
    else
        ((float *)line)[i] = (float)x;
}

#endif
