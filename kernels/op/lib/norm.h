/* norm.h - code shared by layer_norm, rms_norm and their gradients.
 *
 * The operators normalise over the last dimensions of x together, as many dimensions as the weight has. These
 * dimensions are unsplit. Pure, except for writes to the caller's memory; any thread. */
#ifndef RILLE_KERNELS_OP_NORM_H
#define RILLE_KERNELS_OP_NORM_H

#include "kernels/cpu/rows/norm.h"
#include "kernels/op/base/op_impl.h"

/* Indices of norm_grad's attributes. */
enum { NORM_DIMS, NORM_EPS, NORM_CENTER };

/* Callbacks of the records of layer_norm and rms_norm. The operands are x, weight and bias; the attributes are
 * normalized_shape and eps. */
void norm_line_dims(const struct call *c, bool *gone);
int norm_rule(const struct call *c, struct str *rule);
int norm_infer(const struct call *c, int64_t *size);
int norm_ref(const struct kcall *k, bool center);
int norm_run(const struct kcall *k, bool center);
bool norm_accepts(const struct kcall *k);
void norm_grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din, bool center);
/* Implements split_form() for layer_norm and rms_norm, if a normalised dimension is split: builds the norm from sums
 * over the normalised dimensions. Ranks exchange only these sums, which have one number per row. */
int norm_parts(struct build *b, const struct call *c, struct val *const *in, struct val **out, bool center);

/* Appends texts of an SBP rule. x_text: "ab[c][d]" with the last `dims` dimensions in brackets; last: "[c][d]",
 * these dimensions alone. */
void norm_text(const struct type *x, int dims, struct str *x_text, struct str *last);
/* Returns the sizes for normalising the last `dims` dimensions: one row for each position in the other dimensions. */
struct norm norm_of(const struct kcall *k, int dims, double eps, bool center);
/* Mean and deviation of a row in the reference. */
struct norm_row {
    /* The mean is the sum mean + rest, because one double has too few digits if the mean is far from 0. */
    double mean, rest;
    double rstd; /* reciprocal standard deviation of the row, 1 / sqrt(variance + eps) */
};
struct norm_row norm_row(const struct norm *s, const double *x);
static inline double
norm_distance(double x, const struct norm_row *t)
{
    return (x - t->mean) - t->rest;
}

/* Builds norm_grad. Sets the first three of the OP_OUT values in grad[]: gradients of x, weight and bias. */
void b_norm_grad(struct build *b, struct val *x, struct val *dy, struct val *weight, const struct attr *attr,
                 struct val **grad);
/* b_norm_xhat builds (x - mean) * rstd. b_norm_rstd builds rstd, with size 1 in the normalised dimensions. If x has 16
 * bits, both results are f32. */
struct val *b_norm_xhat(struct build *b, struct val *x, const struct attr *attr);
struct val *b_norm_rstd(struct build *b, struct val *x, const struct attr *attr);
/* Builds the mean over the normalised dimensions, kept with size 1; f32 for 16-bit floats. */
struct val *b_norm_mean(struct build *b, struct val *x, const struct attr *attr);

#endif
