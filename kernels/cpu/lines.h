/* lines.h - the lines of tensors along an axis, one after another, each as n reals that lie side by side.
 *
 * An operator says once what it does to a line, of floats or of doubles, wherever that lies: lines_run() brings those
 * that do not lie so in memory to scratch, up to 64 neighbours together, so that it reads a line of cache once, and
 * brings results back. f32, bf16 and f16 are floats, f64 are doubles. Any thread: calls keep nothing, and all
 * memory is the caller's. */
#ifndef RILLE_KERNELS_CPU_LINES_H
#define RILLE_KERNELS_CPU_LINES_H

#include "kernels/cpu/convert.h"
#include "runtime/op.h"

/* A dense tensor seen as [outer, size of axis, inner]: element (o, i, k) is at (o * size + i) * inner + k. */
struct lines {
    int64_t outer, size, inner;
};
struct lines lines_of(const struct view *v, int axis);
/* The lines over several dimensions (gone[d]); false where they do not lie together. */
bool lines_over(const struct view *v, const bool *gone, struct lines *l);

enum { LINE_VIEWS = 4, LINES_TOGETHER = 16 };

/* Loops over n reals of a type; numbers beside them are double, and the loops round them to the type first. y may be x.
 * Sums add lanes within a block of 1024, and blocks in double. */
struct reals {
    double (*max)(int64_t n, const void *x);               /* NaN does not count */
    double (*sum)(int64_t n, const void *x, double shift); /* of x - shift */
    /* y = exp(x - shift), no x greater than shift; gives their sum. y NULL: the sum alone. */
    double (*exp_sum)(int64_t n, const void *x, double shift, void *y);
    /* The sum alone with the greatest, in one reading of a line: a block is scaled by the greatest so far, and what was
     * added up before by what that grew. */
    double (*max_exp_sum)(int64_t n, const void *x, double *max);
    /* The sums alone of `count` lines one behind the other, as some() has them. */
    void (*exp_sums)(int64_t n, int64_t count, const void *x, const double *shift, double *sum);
    double (*exp_sum_any)(int64_t n, const void *x, double shift); /* the sum, for any x */
    /* y = scale exp((x - first) - then), no x greater than first + then. */
    void (*exps)(int64_t n, const void *x, double first, double then, double scale, void *y);
    void (*affine)(int64_t n, double scale, const void *x, double shift, void *y); /* y = scale x + shift */
    void (*minus)(int64_t n, const void *x, double first, double then, void *y);   /* y = (x - first) - then */
    double (*log)(double x);
    void (*logs)(int64_t n, double *x); /* of each of n <= LINES_TOGETHER numbers */
    /* to = x (y - the sum of x y), of `count` lines one behind the other. */
    void (*softmax_grads)(int64_t n, int64_t count, const void *x, const void *y, void *to);
};

/* Computes line r of each view; r counts inner positions fastest. */
typedef void line_fn(const struct kcall *k, const struct reals *f, int64_t r, int64_t n, void *const *line);
/* Computes `count` lines from r on, each one n reals behind the one before: what one waits for, others fill. */
typedef void lines_fn(const struct kcall *k, const struct reals *f, int64_t r, int64_t n, void *const *line,
                      int64_t count);

/* A call for every line: dense views that all have these lines. */
struct line_call {
    struct lines l;
    int nview;
    const struct view *view[LINE_VIEWS];
    unsigned out; /* bit i: it writes view i */
    line_fn *one;
    lines_fn *some; /* instead of it */
};
/* Of each line of x along an axis one of y. */
static inline struct line_call
line_map(const struct view *x, const struct view *y, int axis, line_fn *one)
{
    return (struct line_call){.l = lines_of(x, axis), .nview = 2, .view = {x, y}, .out = 2, .one = one};
}

/* The variant of an operator whose record has lines(): the views are all floats, or all doubles. */
bool lines_accepts(const struct kcall *k);
int lines_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int lines_run(const struct kcall *k, const void *state);

#define LINES_ROW                                                                                                      \
    {                                                                                                                  \
        "lines", .dense_in = true, .accepts = lines_accepts, .prepare = lines_prepare, .run = lines_run                \
    }

/* For results that have one number a line: v's element r. */
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
/* Element i of a line. */
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
