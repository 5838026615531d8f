/* experts.h - multiplies each row by the matrix (expert) that the row's id selects (op/expert_matmul.c), and
 * computes the matrices' gradients.
 *
 * About a hundred rows of an expert at a time are gathered, multiplied by its matrix in a single-threaded product,
 * and scattered to their places. Products have a few fixed sizes, made in advance. The last product is padded with
 * zeros only up to the next size, so the work is proportional to the number of rows. Results are bit-identical for
 * any number of threads. oneDNN computes products of f32, and of bf16 if it multiplies bf16 faster; gemm_f64.h
 * computes doubles. Other 16-bit floats are converted to floats, a panel of a matrix at a time. Matrices in blocks
 * (op/expert_blocks.c) are decoded in the same way; an expert with few rows is computed by blocks_multiply().
 *
 * x: (groups, n, t, k), where a dimension of groups or t may have size 1 and is then shared by all; w: (groups,
 * experts per group, k, m); ids: (n, t); y: (groups, n, t, m). Any thread; the state that prepare() makes is for
 * one run at a time. */
#ifndef RILLE_KERNELS_CPU_EXPERTS_H
#define RILLE_KERNELS_CPU_EXPERTS_H

#include "runtime/graph/op.h"

enum { X, W, IDS }; /* operands of expert_matmul; in the gradient, operand W is dy */

/* Returns the index, within the shard of w, of the matrix that `id` selects in group `group`; -1: the shard does not
 * have this matrix. */
static inline int64_t
expert_of(const struct view *w, int64_t id, int64_t group)
{
    int64_t before = (w->offset[0] + group) * w->global[1] + w->offset[1];
    uint64_t e = (uint64_t)id - (uint64_t)before; /* defined for any id, because unsigned numbers wrap around */
    return e < (uint64_t)w->dim[1] ? group * w->dim[1] + (int64_t)e : -1;
}

/* Returns the row of x from which row r of y is computed. */
static inline int64_t
expert_row(const struct view *x, const struct view *y, int64_t r)
{
    int64_t s = r % y->dim[2], i = r / y->dim[2] % y->dim[1], group = r / y->dim[2] / y->dim[1];
    return ((x->dim[0] == 1 ? 0 : group) * x->dim[1] + i) * x->dim[2] + (x->dim[2] == 1 ? 0 : s);
}

bool experts_takes(const struct kcall *k, int i);
bool experts_grad_takes(const struct kcall *k, int i);
/* Returns true for supported calls of expert_matmul and of its gradient. experts_drop() is also for both. */
bool experts_accepts(const struct kcall *k);
/* Accept and prepare calls with matrices in blocks. Attribute 0 is the type of the blocks; attribute 1 is true if the
 * rows of x are multiplied by the untransposed matrices. */
bool experts_blocks_accepts(const struct kcall *k);
int experts_blocks_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int experts_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int experts_run(const struct kcall *k, const void *state);
int experts_grad_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int experts_grad_run(const struct kcall *k, const void *state);
void experts_drop(void *state);

#endif
