/* reduce.h - combines the addends of partial values. Pure; any thread. */
#ifndef RILLE_BOXING_REDUCE_H
#define RILLE_BOXING_REDUCE_H

#include "runtime/tensor/layout.h"

struct view;

/* Computes a BOX_COPY (n = 1) or BOX_REDUCE step, dst = src[0] op src[1] op ..., in one pass over memory. Each
 * intermediate result is rounded to the dtype of the sources, the last to the dtype of dst. The two dtypes differ if
 * a sum of f32 partials becomes bf16 or f16. dst may be src[0]. box_fill computes BOX_FILL: it writes the identity
 * of r. */
void box_reduce(enum reduce r, const struct view *dst, int n, const struct view *src);
/* Computes like box_reduce, but calls at() for the address of operand k each time that the loop reads operand k. So
 * the caller needs no array of operands. */
struct box_operand {
    const struct view *view; /* shape and strides of the operand, without a data pointer */
    void *data;
};
typedef void box_operand_fn(const void *of, int k, struct box_operand *out);
void box_reduce_each(enum reduce r, const struct view *dst, int n, box_operand_fn *at, const void *of);
void box_fill(enum reduce r, const struct view *dst);
/* Computes one source's part of a step: dst = combine(dst, src), or a copy if `first`. Both views have the same
 * shape and any strides. */
void box_combine(enum reduce r, bool first, const struct view *dst, const struct view *src);

#endif
