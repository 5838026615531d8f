/* norm.h - what layer_norm, rms_norm and their gradients share.
 *
 * They normalise the last dimensions together, as many as the weight has, and these stay unsplit. Pure, but for what
 * they write to the caller's memory; any thread. */
#ifndef RILLE_KERNELS_OP_NORM_H
#define RILLE_KERNELS_OP_NORM_H

#include "kernels/cpu/norm.h"
#include "kernels/op/op_impl.h"

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
/* Their split_form: sums over the normalised dimensions, a number a row each. */
int norm_parts(struct build *b, const struct call *c, struct val *const *in, struct val **out, bool center);

/* The parts of a rule: x "ab[c][d]" and what belongs to its last `dims` dimensions, "[c][d]". */
void norm_text(const struct type *x, int dims, struct str *x_text, struct str *last);
/* Rows of the last `dims` dimensions. */
struct norm norm_of(const struct kcall *k, int dims, double eps, bool center);
/* Of a row of the reference. */
struct norm_row {
    double mean, rest; /* the mean is their sum: one far from 0 has not the digits of what lies near it */
    double rstd;       /* 1 / sqrt(variance + eps) */
};
struct norm_row norm_row(const struct norm *s, const double *x);
static inline double
norm_distance(double x, const struct norm_row *t)
{
    return (x - t->mean) - t->rest;
}

/* norm_grad as a word. grad: OP_OUT places, of which it fills three. */
void b_norm_grad(struct build *b, struct val *x, struct val *dy, struct val *weight, const struct attr *attr,
                 struct val **grad);
/* (x - mean) rstd, and rstd with dimensions of one in place of the normalised ones; f32 of halves. */
struct val *b_norm_xhat(struct build *b, struct val *x, const struct attr *attr);
struct val *b_norm_rstd(struct build *b, struct val *x, const struct attr *attr);
/* The mean over the normalised dimensions, kept with size 1; f32 of halves. */
struct val *b_norm_mean(struct build *b, struct val *x, const struct attr *attr);

#endif
