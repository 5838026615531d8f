/* experts.h - products of rows by the matrices that they name (op/expert_matmul.c), and the matrices' gradients.
 *
 * The rows of an expert are gathered, some hundred at a time, multiplied with its matrix by one thread's product, and
 * given to where they belong. Products have a few sizes, made beforehand, and what is missing in the last is zeros: the
 * work is that of the rows that there are. Results are the same bits for any number of threads. Of f32 and, where
 * oneDNN multiplies them faster, bf16 the products are oneDNN's, of doubles gemm_f64.h's; other halves are floats on
 * the way, a panel of a matrix at a time.
 *
 * x: (groups, n, t, k), of which groups and t may be 1: the same for all; w: (groups, experts of each, k, m); ids: (n,
 * t); y: (groups, n, t, m). Any thread; the state that prepare() makes is for one run at a time. */
#ifndef RILLE_KERNELS_CPU_EXPERTS_H
#define RILLE_KERNELS_CPU_EXPERTS_H

#include "runtime/op.h"

enum { X, W, IDS }; /* operands; dy is where w is */

/* The matrix among those of w, a shard, that an id names in its group `group`; -1: none. */
static inline int64_t
expert_of(const struct view *w, int64_t id, int64_t group)
{
    int64_t before = (w->offset[0] + group) * w->global[1] + w->offset[1];
    uint64_t e = (uint64_t)id - (uint64_t)before; /* whatever number it is */
    return e < (uint64_t)w->dim[1] ? group * w->dim[1] + (int64_t)e : -1;
}

/* The row of x, counted through its dimensions, that row r of y is a product of. */
static inline int64_t
expert_row(const struct view *x, const struct view *y, int64_t r)
{
    int64_t s = r % y->dim[2], i = r / y->dim[2] % y->dim[1], group = r / y->dim[2] / y->dim[1];
    return ((x->dim[0] == 1 ? 0 : group) * x->dim[1] + i) * x->dim[2] + (x->dim[2] == 1 ? 0 : s);
}

bool experts_takes(const struct kcall *k, int i);
bool experts_grad_takes(const struct kcall *k, int i);
bool experts_accepts(const struct kcall *k); /* of both, as drop is */
int experts_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int experts_run(const struct kcall *k, const void *state);
int experts_grad_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int experts_grad_run(const struct kcall *k, const void *state);
void experts_drop(void *state);

#endif
