/* rows.h - loops along one axis of a tensor, in f32, whatever its dtype and stride.
 *
 * Loops walk a row in blocks that fit the first-level cache; row_load() brings elements that are not f32 one behind the
 * other into a block first. Sums have one order: sixty-four lanes within a block, blocks in double. Any thread: calls
 * keep nothing, and all memory is the caller's. */
#ifndef RILLE_KERNELS_CPU_ROWS_H
#define RILLE_KERNELS_CPU_ROWS_H

#include "runtime/view.h"

enum { ROW_BLOCK = 1024 };

struct row {
    char *data;
    enum dtype dtype;
    int64_t stride, n;
};
/* Line (outer, inner) of a dense view along axis; k counts inner positions fastest. */
struct row row_of(const struct view *v, int axis, int64_t k);
int64_t row_count(const struct view *v, int axis); /* how many such lines */

/* n elements from `from` on as f32: in place where they lie so, else in workspace. */
const float *row_load(const struct row *r, int64_t from, int64_t n, float *workspace);
/* Where to compute elements from `from` on, which row_store() then takes: in place when they lie so, else workspace. */
float *row_into(const struct row *r, int64_t from, float *workspace);
void row_store(const struct row *r, int64_t from, int64_t n, const float *x);

double row_sum(const struct row *r, float shift); /* of x - shift */

/* Over n contiguous elements; y may be x. */
float vec_max(int64_t n, const float *x);
float vec_sum(int64_t n, const float *x);
float vec_dot(int64_t n, const float *x, const float *y);
/* z = x (y - the sum of x y), of `count` lines of n elements one behind the other. */
void vec_softmax_grads(int64_t n, int64_t count, const float *x, const float *y, float *z);
void vec_add(int64_t n, const float *x, float *y); /* y += x */
/* y = exp(x - shift) where no x is greater than shift; gives their sum. Off by 2 units of the last place at most. */
float vec_exp_sum(int64_t n, const float *x, float shift, float *y);
void vec_exp_below(int64_t n, const float *x, float shift, float *y); /* the same without the sum */
/* y = scale exp((x - first) - then), where no x is greater than first + then; brings in the block behind of both. */
void vec_exps(int64_t n, const float *x, float first, float then, float scale, float *y);
/* As vec_exp_below; brings in the block behind, which is to be read next. */
void vec_exp_ahead(int64_t n, const float *x, float shift, float *y);
void vec_affine(int64_t n, float scale, const float *x, float shift, float *y); /* y = scale * x + shift */

/* Down the columns of n dense rows of `width` elements, a multiple of COLS; max, sum, shift: one of each column. */
enum { COLS = 16 };
/* The greatest of max and the column, scaled. */
void cols_max(int64_t n, int64_t width, float scale, const float *x, float *max);
/* x = exp(scale x - shift), and their sum: as vec_exp_sum. */
void cols_exp(int64_t n, int64_t width, float scale, float *x, const float *shift, float *sum);
void cols_times(int64_t n, int64_t width, float *x, const float *factor); /* x *= factor */
/* y = scale x (y - shift) */
void cols_softmax_grad(int64_t n, int64_t width, float scale, const float *x, const float *shift, float *y);
/* y[c][i] = x[i][c], for any n and width; pitch: from one row of x or y to the next. */
void cols_turn(int64_t n, int64_t width, const float *x, int64_t x_pitch, float *y, int64_t y_pitch);

#endif
