/* build.h - builders for gradients and composites: one helper per operator.
 *
 * Every helper adds a node through b->add and returns its value. After a failure all helpers return NULL (sticky),
 * so a gradient reads as mathematics and the caller checks once. The nodes are ordinary operators with signatures,
 * kernels and gradients of their own. The session owns the nodes, and the session thread builds. */
#ifndef RILLE_KERNELS_OP_BUILD_H
#define RILLE_KERNELS_OP_BUILD_H

#include "runtime/graph/op.h"
#include "runtime/base/error.h"
#include "runtime/graph/graph.h"

/* Calls any operator; attr NULL: default attributes. */
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
/* Sets part[] to the operands of the concat along the axis that produces x, if it is not computed yet; else to x
 * alone. Returns the number of parts, at most JOINED. */
enum { JOINED = 32 };
int b_joined(struct val *x, int64_t axis, struct val **part);
struct val *b_sub(struct build *b, struct val *x, struct val *y);
struct val *b_mul(struct build *b, struct val *x, struct val *y);
struct val *b_div(struct build *b, struct val *x, struct val *y);
struct val *b_where(struct build *b, struct val *cond, struct val *x, struct val *y);

/* x * f and x + f, with f a number. */
struct val *b_scale(struct build *b, struct val *x, double f);
struct val *b_shift(struct build *b, struct val *x, double f);

/* Reduces by an operator with the attributes axis and keepdim. naxes 0: over all dimensions. */
struct val *b_reduce(struct build *b, const struct op *op, struct val *x, const int64_t *axes, int naxes, bool keepdim);
struct val *b_sum(struct build *b, struct val *x, const int64_t *axes, int naxes, bool keepdim);
struct val *b_cast(struct build *b, struct val *x, enum dtype d);
/* The `unrounded` callback of operators with a dtype attribute, to which they round their sums: builds the call of n
 * with dtype f32. */
struct val *b_unrounded(struct build *b, const struct node *n);
/* Composites accumulate in f32 for f16 and bf16 operands and round once, as a fused kernel would. b_wide widens x at
 * the beginning, b_sum_wide and b_matmul_wide accumulate in f32, and b_narrow rounds at the end: y in the dtype of
 * x, if that dtype is a float. */
struct val *b_wide(struct build *b, struct val *x);
struct val *b_sum_wide(struct build *b, struct val *x, const int64_t *axes, int naxes, bool keepdim);
struct val *b_matmul_wide(struct build *b, struct val *x, struct val *y);
struct val *b_narrow(struct build *b, struct val *y, const struct type *x);
/* Sums x in f64. This includes i64, whose own sum would wrap around. */
struct val *b_total(struct build *b, struct val *x, const int64_t *axes, int naxes, bool keepdim);
/* x minus its mean, which is computed in f64. The result is f64 for f64 and f32 otherwise. No digits are lost for
 * values far from 0: in f64 the mean of the differences is subtracted too. */
struct val *b_center(struct build *b, struct val *x, const int64_t *axes, int naxes);
struct val *b_reshape(struct build *b, struct val *x, int ndim, const int64_t *size);
struct val *b_transpose(struct build *b, struct val *x, int i, int j);
/* Exchanges the last two dimensions. */
struct val *b_transpose_last(struct build *b, struct val *x);
struct val *b_slice(struct build *b, struct val *x, int axis, int64_t start, int64_t stop, int64_t step);
struct val *b_permute(struct build *b, struct val *x, int naxes, const int64_t *axes);
/* Drops the listed dimensions, which have size 1; naxes 0: drops all dimensions. */
struct val *b_squeeze(struct build *b, struct val *x, const int64_t *axes, int naxes);

/* Sums g over the dimensions that an operand of type t was broadcast along; the result has t's shape and dtype. */
struct val *b_sum_to(struct build *b, struct val *g, const struct type *t);
/* Repeats y, shaped as the result of the reduction n (attributes 0 and 1 are axis and keepdim), into the shape of
 * n's operand. */
struct val *b_unreduce(struct build *b, const struct node *n, struct val *y);
/* Reshapes y as b_unreduce does, but with size 1 in the dimensions that n reduces. */
struct val *b_keepdim(struct build *b, const struct node *n, struct val *y);

/* For a split axis. b_line_max: the maximum per line, kept with size 1, with derivative 0 (stop_gradient). Callers
 * subtract the maximum from x against overflow. b_line_exp_sum: sum of e^(x - m). b_line_sum: sum in dtype d. The
 * gradients of the two sums are laid out like x, so only one number per line is moved. */
struct val *b_line_max(struct build *b, struct val *x, int64_t axis);
struct val *b_line_exp_sum(struct build *b, struct val *x, struct val *m, int64_t axis);
struct val *b_line_sum(struct build *b, struct val *x, const int64_t *axes, int naxes, enum dtype d);
/* Returns true at each position of x, also where x is NaN, in x's layout. */
struct val *b_true(struct build *b, struct val *x);
/* Repeats y to x's shape, in x's dtype and x's layout. b_expand would keep y's layout, and the whole repeated tensor
 * would be moved. */
struct val *b_along(struct build *b, struct val *x, struct val *y);

/* Along one axis. b_softmax_grad: the gradient of softmax from its result y. b_index_add: the sums of src's entries
 * in a tensor of like's shape. */
struct val *b_softmax_grad(struct build *b, struct val *y, struct val *dy, int axis);
struct val *b_index_add(struct build *b, struct val *like, int axis, struct val *ids, struct val *src);
/* Repeats x to these sizes. */
struct val *b_expand(struct build *b, struct val *x, int ndim, const int64_t *size);
/* Inserts a dimension of size 1 into x at axis. */
struct val *b_unsqueeze(struct build *b, struct val *x, int64_t axis);

/* Fails with "NAME: text; a is f32{4, 5}, ...". */
int call_fail(enum err_code code, const struct call *c, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Gradient of max or min: shares dout evenly among the elements that equal the result. */
struct val *b_share(struct build *b, const struct node *n, struct val *dout);

/* grad() of operators whose derivative is 0 wherever it exists. */
void b_zero_grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din);
/* Returns true if the gradient of n's operand i is needed: a float tensor that a gradient may have to pass. */
bool b_wants(const struct node *n, int i);
/* Sets attribute `name` of op in attr (as op_attr_defaults left it). */
void attr_int(const struct op *op, struct attr *attr, const char *name, int64_t i);
void attr_float(const struct op *op, struct attr *attr, const char *name, double f);
void attr_ints(const struct op *op, struct attr *attr, const char *name, int n, const int64_t *list);

#endif
