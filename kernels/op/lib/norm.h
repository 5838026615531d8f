/* norm.h - the common part of layer_norm, rms_norm and their gradients.
 *
 * They normalise the last dimensions together, as many as the weight has; these dimensions are unsplit. Pure, except
 * for writes to the caller's memory; any thread. */
#ifndef RILLE_KERNELS_OP_NORM_H
#define RILLE_KERNELS_OP_NORM_H

#include "kernels/cpu/rows/norm.h"
#include "kernels/op/lib/op_impl.h"

/* Attributes of norm_grad. */
enum { NORM_DIMS, NORM_EPS, NORM_CENTER };

/* layer_norm and rms_norm: operands x, weight, bias; attributes normalized_shape and eps. */
void norm_line_dims(const struct call *c, bool *gone);
int norm_rule(const struct call *c, struct str *rule);
int norm_infer(const struct call *c, int64_t *size);
int norm_ref(const struct kcall *k, bool center);
int norm_run(const struct kcall *k, bool center);
bool norm_accepts(const struct kcall *k);
void norm_grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din, bool center);
/* split_form() of both: uses sums over the normalised dimensions, each one number per row. */
int norm_parts(struct build *b, const struct call *c, struct val *const *in, struct val **out, bool center);

/* Writes the parts of a rule: x "ab[c][d]", and "[c][d]" for its last `dims` dimensions. */
void norm_text(const struct type *x, int dims, struct str *x_text, struct str *last);
/* Rows of the last `dims` dimensions. */
struct norm norm_of(const struct kcall *k, int dims, double eps, bool center);
/* Statistics of a row in the reference. */
struct norm_row {
    double mean, rest; /* the mean is mean + rest, because one double lacks the digits when the mean is far from 0 */
    double rstd;       /* 1 / sqrt(variance + eps) */
};
struct norm_row norm_row(const struct norm *s, const double *x);
static inline double
norm_distance(double x, const struct norm_row *t)
{
    return (x - t->mean) - t->rest;
}

/* Calls norm_grad. grad: array of OP_OUT values, of which three are set. */
void b_norm_grad(struct build *b, struct val *x, struct val *dy, struct val *weight, const struct attr *attr,
                 struct val **grad);
/* b_norm_xhat: (x - mean) * rstd. b_norm_rstd: rstd, with size 1 for the normalised dimensions. Both are f32 for
 * halves. */
struct val *b_norm_xhat(struct build *b, struct val *x, const struct attr *attr);
struct val *b_norm_rstd(struct build *b, struct val *x, const struct attr *attr);
/* The mean over the normalised dimensions, kept with size 1; f32 for halves. */
struct val *b_norm_mean(struct build *b, struct val *x, const struct attr *attr);

#endif
