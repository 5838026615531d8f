/* build.h - builders for gradients and composites: one helper per operator.
 *
 * Every helper adds a node through b->add and returns the node's value. After a failure all helpers return NULL, so
 * the code of a gradient reads as mathematics and the caller checks once. The nodes are ordinary operators with
 * signatures, kernels and gradients of their own. The session owns the nodes, and the session thread builds. */
#ifndef RILLE_KERNELS_OP_BASE_BUILD_H
#define RILLE_KERNELS_OP_BASE_BUILD_H

#include "runtime/graph/op.h"
#include "runtime/base/error.h"
#include "runtime/graph/graph.h"

/* Calls any operator. attr NULL: default attributes. */
struct val *b_call(struct build *b, const struct op *op, int nin, struct val *const *in, const struct attr *attr);
struct val *b_call1(struct build *b, const struct op *op, struct val *x);
struct val *b_call2(struct build *b, const struct op *op, struct val *x, struct val *y);
struct val *b_call3(struct build *b, const struct op *op, struct val *x, struct val *y, struct val *z);

struct val *b_number(struct build *b, double f);
struct val *b_integer(struct build *b, int64_t i);

struct val *b_neg(struct build *b, struct val *x);
struct val *b_exp(struct build *b, struct val *x);
struct val *b_log(struct build *b, struct val *x);
struct val *b_square(struct build *b, struct val *x);
struct val *b_sin(struct build *b, struct val *x);
struct val *b_cos(struct build *b, struct val *x);
struct val *b_sign(struct build *b, struct val *x);
struct val *b_sigmoid(struct build *b, struct val *x);
struct val *b_add(struct build *b, struct val *x, struct val *y);
struct val *b_sub(struct build *b, struct val *x, struct val *y);
struct val *b_mul(struct build *b, struct val *x, struct val *y);
struct val *b_div(struct build *b, struct val *x, struct val *y);
struct val *b_where(struct build *b, struct val *cond, struct val *x, struct val *y);

/* Return x * f and x + f, where f is a constant. */
struct val *b_scale(struct build *b, struct val *x, double f);
struct val *b_shift(struct build *b, struct val *x, double f);

/* Reduces x by an operator that has the attributes axis and keepdim. naxes 0: reduces all dimensions. */
struct val *b_reduce(struct build *b, const struct op *op, struct val *x, const int64_t *axes, int naxes, bool keepdim);
struct val *b_sum(struct build *b, struct val *x, const int64_t *axes, int naxes, bool keepdim);
struct val *b_cast(struct build *b, struct val *x, enum dtype d);
/* Implements `unrounded` for operators with a dtype attribute: builds the call of n again with dtype f32, that is,
 * without rounding the sum. */
struct val *b_unrounded(struct build *b, const struct node *n);
/* Composites with f16 or bf16 operands accumulate in f32 and round once, as a fused kernel would. b_wide converts x
 * to f32 at the start. b_sum_wide and b_matmul_wide accumulate in f32. b_narrow rounds y to the dtype of x at the
 * end, if that dtype is a float. */
struct val *b_wide(struct build *b, struct val *x);
struct val *b_sum_wide(struct build *b, struct val *x, const int64_t *axes, int naxes, bool keepdim);
struct val *b_matmul_wide(struct build *b, struct val *x, struct val *y);
struct val *b_narrow(struct build *b, struct val *y, const struct type *x);
/* Sums x in f64, also if x is i64, because a sum in i64 could wrap around. */
struct val *b_total(struct build *b, struct val *x, const int64_t *axes, int naxes, bool keepdim);
/* Returns x minus its mean, in f64 if x is f64, else in f32. Computes the mean in f64. For f64 x, the mean of the
 * differences is subtracted too, so that values far from 0 lose no digits. */
struct val *b_center(struct build *b, struct val *x, const int64_t *axes, int naxes);
struct val *b_reshape(struct build *b, struct val *x, int ndim, const int64_t *size);
struct val *b_transpose(struct build *b, struct val *x, int i, int j);
/* Transposes matrices: exchanges the last two dimensions of x. */
struct val *b_transpose_last(struct build *b, struct val *x);
struct val *b_slice(struct build *b, struct val *x, int axis, int64_t start, int64_t stop, int64_t step);
struct val *b_permute(struct build *b, struct val *x, int naxes, const int64_t *axes);
/* Drops the listed dimensions, which have size 1; naxes 0: drops all dimensions. */
struct val *b_squeeze(struct build *b, struct val *x, const int64_t *axes, int naxes);

/* Sums g over the dimensions that an operand of type t was broadcast along; the result has t's shape and dtype. */
struct val *b_sum_to(struct build *b, struct val *g, const struct type *t);
/* Returns b_sum_to(g * x). For f32 and f64, one pass reads g and x, and the products are not stored. */
struct val *b_sum_products(struct build *b, struct val *g, struct val *x, const struct type *t);
/* Repeats y to the shape of n's operand. n is a reduction with attributes 0 (axis) and 1 (keepdim); y has the shape
 * of n's result. */
struct val *b_unreduce(struct build *b, const struct node *n, struct val *y);
/* Reshapes y, which has the shape of n's result, so that the dimensions that n reduces have size 1. */
struct val *b_keepdim(struct build *b, const struct node *n, struct val *y);

/* The functions below build sums and maxima of lines; a line has the elements along an axis that is split over
 * ranks. The gradients of the sums have the layout of x, so that ranks exchange only one number per line. */
/* Builds the maximum of each line, and keeps the axis with size 1. The result has derivative 0 (stop_gradient).
 * Callers subtract the maximum from x, so that exponentials do not overflow. */
struct val *b_line_max(struct build *b, struct val *x, int64_t axis);
/* Builds the sum of e^(x - m). */
struct val *b_line_exp_sum(struct build *b, struct val *x, struct val *m, int64_t axis);
/* Builds the sum in dtype d. */
struct val *b_line_sum(struct build *b, struct val *x, const int64_t *axes, int naxes, enum dtype d);
/* Returns a bool tensor with the shape and the layout of x. All elements are true, also where x is NaN. */
struct val *b_true(struct build *b, struct val *x);
/* Repeats y to the shape, dtype and layout of x. b_expand would keep the layout of y, so the repeated tensor, which
 * has x's size, would have to be moved to the layout of x. */
struct val *b_along(struct build *b, struct val *x, struct val *y);

/* Operators along one axis. b_softmax_grad: gradient of softmax, computed from its result y. b_index_add: adds the
 * entries of src at positions ids in a tensor of zeros with the shape of `like`. */
struct val *b_softmax_grad(struct build *b, struct val *y, struct val *dy, int axis);
struct val *b_index_add(struct build *b, struct val *like, int axis, struct val *ids, struct val *src);
/* Repeats x to the sizes size[0..ndim). */
struct val *b_expand(struct build *b, struct val *x, int ndim, const int64_t *size);
/* Inserts a dimension of size 1 into the shape of x, at index `axis`. */
struct val *b_unsqueeze(struct build *b, struct val *x, int64_t axis);

/* Implements grad() for max and min: divides dout evenly among the elements that equal the result. */
void b_share_grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din);

/* Implements grad() for operators whose derivative is 0 wherever it exists. */
void b_zero_grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din);
/* Implement grad() for operators that copy all elements: b_same_grad to a result of the operand's shape,
 * b_reshape_grad to a result of another shape. */
void b_same_grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din);
void b_reshape_grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din);
/* Returns true if the gradient of operand i of n is needed, that is, if the operand is a float tensor that a
 * gradient may pass through. */
bool b_wants(const struct node *n, int i);
/* Set attribute `name` of op in attr, which op_attr_defaults() has filled in. */
void attr_int(const struct op *op, struct attr *attr, const char *name, int64_t i);
void attr_float(const struct op *op, struct attr *attr, const char *name, double f);
void attr_ints(const struct op *op, struct attr *attr, const char *name, int n, const int64_t *list);

#endif
