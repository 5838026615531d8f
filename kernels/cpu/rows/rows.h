/* rows.h - loops along one axis of a tensor, in f32, for any dtype and stride.
 *
 * Loops process a row in blocks that fit into the first-level cache. row_load() first copies elements that are not
 * contiguous f32 into a block. Sums have a fixed order: sixty-four lanes within a block; the sums of blocks are
 * added in double. Any thread: calls keep no state, and the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_ROWS_H
#define RILLE_KERNELS_CPU_ROWS_H

#include "runtime/tensor/view.h"

enum { ROW_BLOCK = 1024 };

struct row {
    char *data;
    enum dtype dtype;
    int64_t stride, n;
};
/* Returns line k of a dense view along an axis. Lines are numbered from the innermost position outwards, so line k +
 * 1 is at the next inner position. */
struct row row_of(const struct view *v, int axis, int64_t k);
int64_t row_count(const struct view *v, int axis); /* returns the number of lines along an axis */

/* Returns n elements of a row, starting at element `from`, as f32: in place if possible, else converted into
 * workspace. */
const float *row_load(const struct row *r, int64_t from, int64_t n, float *workspace);
/* Returns the address to which a caller writes elements before it calls row_store(): in the row if possible, else
 * `workspace`. */
float *row_into(const struct row *r, int64_t from, float *workspace);
void row_store(const struct row *r, int64_t from, int64_t n, const float *x);

/* Functions vec_... process n contiguous elements. y may be x. */
float vec_max(int64_t n, const float *x);
float vec_sum(int64_t n, const float *x);
float vec_dot(int64_t n, const float *x, const float *y);
/* Sets z = x (y - sum(x y)) for `count` consecutive lines of n elements; each line has its own sum. */
void vec_softmax_grads(int64_t n, int64_t count, const float *x, const float *y, float *z);
void vec_add(int64_t n, const float *x, float *y); /* adds x to y */
/* Sets y = exp(x - shift) for x <= shift, and returns the sum of y. The error of y is at most 2 units in the last
 * place. */
float vec_exp_sum(int64_t n, const float *x, float shift, float *y);
/* Sets y as vec_exp_sum() does, but does not sum. */
void vec_exp_below(int64_t n, const float *x, float shift, float *y);
/* Sets y = scale exp((x - first) - then) for x <= first + then. Prefetches the next blocks of x and y. */
void vec_exps(int64_t n, const float *x, float first, float then, float scale, float *y);
/* Sets y as vec_exp_below() does, and prefetches the next block. */
void vec_exp_ahead(int64_t n, const float *x, float shift, float *y);
void vec_affine(int64_t n, float scale, const float *x, float shift, float *y); /* sets y = scale * x + shift */

/* Functions cols_... process the columns of n dense rows. Rows have `width` elements, a multiple of COLS. max, sum,
 * shift and factor have one entry per column. */
enum { COLS = 16 };
/* Sets max, per column, to the maximum of max and of all scale * x. */
void cols_max(int64_t n, int64_t width, float scale, const float *x, float *max);
/* Sets x = exp(scale x - shift), and `sum` to the sum per column. The error is that of vec_exp_sum(). */
void cols_exp(int64_t n, int64_t width, float scale, float *x, const float *shift, float *sum);
void cols_times(int64_t n, int64_t width, float *x, const float *factor); /* multiplies each column by its factor */
/* Sets y = scale x (y - shift): the gradient of a softmax along columns. x: the softmax; y: its gradient; shift:
 * sum of x y per column. */
void cols_softmax_grad(int64_t n, int64_t width, float scale, const float *x, const float *shift, float *y);

#endif
