/* products.h - products a (x - c) of blocks of elements, for reductions of products.
 *
 * Operands of a call: x; c, which has size 1 in the reduced dimensions, or is absent (0); a, or absent: the distances
 * x - c are squared. Any thread: calls keep no state, and the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_PRODUCTS_H
#define RILLE_KERNELS_CPU_PRODUCTS_H

#include "kernels/cpu/base/convert.h"
#include "runtime/graph/op.h"

enum { PRODUCT_X, PRODUCT_C, PRODUCT_A };

/* Returns an operand's view; NULL: the operand is absent. */
static inline const struct view *
product_operand(const struct kcall *k, int i)
{
    return i < k->call->nin && k->in[i].dtype != DT_NONE ? &k->in[i] : NULL;
}

/* Sets y to n products, in the compute type. x, a and y are contiguous. a NULL: the distances are squared. c NULL: 0.
 * c_moves: there is one element of c per element of x; false: c has a single element. */
void products_set(enum compute type, int64_t n, const void *x, const void *a, const void *c, bool c_moves, void *y);
/* Adds the sum of the products of each row to the row's entry of `sum`. Rows have n elements; apart: distance between
 * rows of x, and of a, elements. c: one element per row, c_apart elements from the next; NULL: 0. The position of an
 * element determines the lane that adds its product, in f64. */
void products_fold(enum compute type, int64_t rows, int64_t n, int64_t apart, const void *x, const void *a,
                   const void *c, int64_t c_apart, double *sum);

#endif
