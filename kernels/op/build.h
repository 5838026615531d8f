/* build.h - the words that gradients and composites are made of: one helper an operator.
 *
 * Every helper adds a node through b->add and gives its value; after a failure all give NULL (sticky), so a gradient
 * reads as mathematics and the caller checks once. The nodes are ordinary operators: they have signatures, kernels and
 * gradients of their own. The session owns them, and its thread builds. */
#ifndef RILLE_KERNELS_OP_BUILD_H
#define RILLE_KERNELS_OP_BUILD_H

#include "runtime/op.h"
#include "runtime/error.h"
#include "runtime/graph.h"

#define OP(name) extern const struct op op_##name;
#include "kernels/op/ops.def"
#undef OP

/* Any operator with its attributes at their defaults, or as given. */
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
/* What x joins along the axis, in part, where a concat that nobody has computed yet gives it; else x alone. Returns how
 * many, at most JOINED. */
enum { JOINED = 32 };
int b_joined(struct val *x, int64_t axis, struct val **part);
struct val *b_sub(struct build *b, struct val *x, struct val *y);
struct val *b_mul(struct build *b, struct val *x, struct val *y);
struct val *b_div(struct build *b, struct val *x, struct val *y);
struct val *b_where(struct build *b, struct val *cond, struct val *x, struct val *y);

/* x * f, x + f with a number. */
struct val *b_scale(struct build *b, struct val *x, double f);
struct val *b_shift(struct build *b, struct val *x, double f);

/* A reduction (an operator with the attributes axis and keepdim). naxes 0: over all dimensions. */
struct val *b_reduce(struct build *b, const struct op *op, struct val *x, const int64_t *axes, int naxes, bool keepdim);
struct val *b_sum(struct build *b, struct val *x, const int64_t *axes, int naxes, bool keepdim);
struct val *b_cast(struct build *b, struct val *x, enum dtype d);
/* The `unrounded` of operators whose attribute dtype says what their sums are rounded to. */
struct val *b_unrounded(struct build *b, const struct node *n);
/* Composites accumulate in f32 for f16 and bf16 operands and round once, as a fused kernel would. b_wide widens x at
 * the beginning, b_sum_wide and b_matmul_wide sum on the way, b_narrow rounds at the end: y in the dtype of x, if that
 * is a float. */
struct val *b_wide(struct build *b, struct val *x);
struct val *b_sum_wide(struct build *b, struct val *x, const int64_t *axes, int naxes, bool keepdim);
struct val *b_matmul_wide(struct build *b, struct val *x, struct val *y);
struct val *b_narrow(struct build *b, struct val *y, const struct type *x);
/* The sum of x in f64, of i64 too, whose own sum would wrap around. */
struct val *b_total(struct build *b, struct val *x, const int64_t *axes, int naxes, bool keepdim);
/* x less its mean, which it takes in f64; in f32 of halves and integers. Far from 0 it loses no digit: the mean of f64
 * is corrected by that of what is left. */
struct val *b_center(struct build *b, struct val *x, const int64_t *axes, int naxes);
struct val *b_reshape(struct build *b, struct val *x, int ndim, const int64_t *size);
struct val *b_transpose(struct build *b, struct val *x, int i, int j);
/* Exchanges the last two dimensions. */
struct val *b_transpose_last(struct build *b, struct val *x);
struct val *b_slice(struct build *b, struct val *x, int axis, int64_t start, int64_t stop, int64_t step);
struct val *b_permute(struct build *b, struct val *x, int naxes, const int64_t *axes);
/* Drops these dimensions, which have size one; naxes 0: all of them. */
struct val *b_squeeze(struct build *b, struct val *x, const int64_t *axes, int naxes);

/* Sums g over the dimensions that an operand of type t was broadcast along, in t's shape and dtype. */
struct val *b_sum_to(struct build *b, struct val *g, const struct type *t);
/* Repeats y, shaped as the result of the reduction n (attributes 0 and 1 are axis and keepdim), into the shape of n's
 * operand. */
struct val *b_unreduce(struct build *b, const struct node *n, struct val *y);
/* The same with size 1 where n reduces. */
struct val *b_keepdim(struct build *b, const struct node *n, struct val *y);

/* Where an axis is cut: the greatest of each line, kept with size 1, which a caller takes from x so that no exponential
 * overflows, with derivative 0 (stop_gradient); the sum of e^(x - m); a sum, in a dtype. What these two
 * give back to x lies as x does: a number a line moves. */
struct val *b_line_max(struct build *b, struct val *x, int64_t axis);
struct val *b_line_exp_sum(struct build *b, struct val *x, struct val *m, int64_t axis);
struct val *b_line_sum(struct build *b, struct val *x, const int64_t *axes, int naxes, enum dtype d);
/* y, in x's dtype, repeated to x's shape where x lies; what b_expand repeats lies as y does, and would all move. */
struct val *b_along(struct build *b, struct val *x, struct val *y);

/* Along one axis: the gradient of softmax from its result; the sums of src's entries in a tensor of like's shape. */
struct val *b_softmax_grad(struct build *b, struct val *y, struct val *dy, int axis);
struct val *b_index_add(struct build *b, struct val *like, int axis, struct val *ids, struct val *src);
/* x repeated to these sizes. */
struct val *b_expand(struct build *b, struct val *x, int ndim, const int64_t *size);
/* Inserts a dimension of size one into x at axis. */
struct val *b_unsqueeze(struct build *b, struct val *x, int64_t axis);

/* Fails with "NAME: text; a is f32{4, 5}, ...". */
int call_fail(enum err_code code, const struct call *c, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The gradient dout of max or min: what took part in the result shares it evenly. */
struct val *b_share(struct build *b, const struct node *n, struct val *dout);

/* grad of operators whose derivative is 0 wherever there is one. */
void b_zero_grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din);
/* Does anybody want the gradient of n's operand i? (A float tensor that a gradient may have to pass.) */
bool b_wants(const struct node *n, int i);
/* Sets attribute `name` of op in attr (as op_attr_defaults left it). */
void attr_int(const struct op *op, struct attr *attr, const char *name, int64_t i);
void attr_float(const struct op *op, struct attr *attr, const char *name, double f);
void attr_ints(const struct op *op, struct attr *attr, const char *name, int n, const int64_t *list);

#endif
