/* cross_entropy_grad.c - the gradient of cross_entropy_rows with respect to the logits x.
 *
 *   dx[c] = (exp((x[c] - m) - rest) - t[c]) dloss
 *
 * With smoothing s and C classes, the target t is 1 - s at the label, plus s / C everywhere. m and rest are
 * results of cross_entropy_rows: m is the greatest logit, and m + rest the logarithm of the sum of exponentials.
 * dx is 0 if the label is ignored. */
#include "kernels/op/cross_entropy.h"
#include "kernels/op/cross_entropy_rows.h"

#include <math.h>
#include <string.h>

extern const struct op op_cross_entropy_grad;

static int
rule(const struct call *c, struct str *rule)
{
    return ce_rule(c, true, "x,l,l,l,l->x", rule);
}

static int
ref(const struct kcall *k)
{
    const struct attr *attr = k->call->attr;
    struct lines l = lines_of(&k->in[0], ce_axis(k->in[0].ndim));
    const int64_t *label = i64_of(&k->in[1]);
    const double *max = f64_of(&k->in[2]), *rest = f64_of(&k->in[3]), *g = f64_of(&k->in[4]);
    for (int64_t r = 0; r < l.outer * l.inner; r++) {
        int64_t at = r / l.inner * l.size * l.inner + r % l.inner;
        const double *x = f64_of(&k->in[0]) + at;
        double *y = f64_of(&k->out[0]) + at, s = attr[CE_SMOOTHING].f;
        for (int64_t c = 0; c < l.size; c++) {
            double t = (c == label[r] ? 1 - s : 0) + s / (double)l.size;
            double p = exp(x[c * l.inner] - max[r] - rest[r]);
            y[c * l.inner] = label[r] == attr[CE_IGNORE].i ? 0 : (p - t) * g[r];
        }
    }
    return 0;
}

/* ---- variant: lines of classes ---- */

/* Computes one line of the gradient. Subtracts the label's target from its probability before the line is rounded to
 * its dtype. */
static void
one_line(const struct kcall *k, const struct reals *f, int64_t r, int64_t n, void *const *at)
{
    const struct attr *attr = k->call->attr;
    const struct view *x = &k->in[0], *labels = &k->in[1];
    int64_t label = elem_get_i((enum dtype)labels->dtype, labels->data, r);
    double max = line_get(&k->in[2], r), rest = line_get(&k->in[3], r), g = line_get(&k->in[4], r);
    double s = attr[CE_SMOOTHING].f, spread = s / (double)n;
    if (!ce_counts(k, label, n)) {
        memset(at[1], 0, (size_t)n * compute_bytes(compute_of((enum dtype)x->dtype)));
        return;
    }
    f->exps(n, at[0], max, rest, isfinite(g) ? g : 1, at[1]);
    if (isfinite(g)) {
        if (spread) f->affine(n, 1, at[1], -spread * g, at[1]);
    } else { /* if g is infinite or NaN, multiplies by g last, because g * exp - g * spread would be inf - inf */
        f->affine(n, 1, at[1], -spread, at[1]);
        f->affine(n, g, at[1], 0, at[1]);
    }
    line_set(x, at[1], label, (exp(line_at(x, at[0], label) - max - rest) - (1 - s + spread)) * g);
}

static bool
lines(const struct kcall *k, struct line_call *c)
{
    *c = line_map(&k->in[0], &k->out[0], ce_axis(k->in[0].ndim), one_line);
    return true;
}

/* Builds the gradient of this operator. h: gradient of dx; p = exp((x - m) - rest); sums are over the classes.
 * d/dx = h * p * dloss; d/dm = d/drest = -sum(h * p * dloss); d/ddloss = sum(h * (p - t)). Positions with an
 * ignored label get 0. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *x = n->in[0], *label = n->in[1], *max = n->in[2], *rest = n->in[3], *g = n->in[4], *h = dout[0];
    int64_t axis = ce_axis(x->type.ndim);
    struct val *counts = ce_which_count(b, label, n->attr[CE_IGNORE].i), *share = b_where(b, counts, g, b_number(b, 0));
    struct val *hp = b_mul(b, b_mul(b, h, ce_softmax(b, x, max, rest, counts)), b_unsqueeze(b, share, axis));
    if (b_wants(n, 0)) din[0] = b_narrow(b, hp, &x->type);
    if (b_wants(n, 2) || b_wants(n, 3)) din[2] = din[3] = b_neg(b, b_sum(b, hp, &axis, 1, false));
    if (b_wants(n, 4)) {
        struct val *one = b_cast(b, b_true(b, g), g->type.dtype), *in[] = {x, label, max, rest, one};
        struct val *gradient = b_call(b, &op_cross_entropy_grad, 5, in, n->attr);
        din[4] = b_cast(b, b_sum_wide(b, b_mul(b, h, gradient), &axis, 1, false), g->type.dtype);
    }
}

static const char line[] = BODY({
    const int64_t label = x1(0);
    const double s = c->attr[LABEL_SMOOTHING].f;
    const real m = x2(0), rest = x3(0), g = x4(0), there = 1 - s + s / n, elsewhere = s / n;
    const bool counts = label != c->attr[IGNORE_INDEX].i && label >= 0 && label < n;
    each_of(
        [&](element i) {
            const real p = exp(x0(i) - m - rest);
            return counts ? (p - (i == label ? there : elsewhere)) * g : 0;
        },
        [&](element i, real v) { y0(i, v); });
});

const struct op op_cross_entropy_grad = {
    .name = "cross_entropy_grad",
    .doc = "dx = (softmax(x) - target) dloss at each position",
    .in = {{"logits", IN_FLOAT}, {"labels", IN_INDEX}, {"m", IN_FLOAT}, {"rest", IN_FLOAT}, {"dloss", IN_FLOAT}},
    .attr = {CE_ATTRS},
    .shape.make_rule = rule,
    .shape.dtype = OUT_IN0,
    .partial.linear = "4",
    .grad.build = grad,
    .grad.saves = "01234",
    .host.ref = ref,
    .gpu.line = line,
    .gpu.line_dims = ce_line_dims,
    .host.lines = lines,
    .host.kernel = lines_variants,
    .flags = OP_HIDDEN,
    .sample = {"f32{4,6} i64{4}<6 f32{4} f32{4} f32{4}",
               "f32{2,5,3} i32{2,3}<5 f32{2,3} f32{2,3} f32{2,3} label_smoothing=0.25",
               "bf16{3,4} i64{3}<4 f32{3} f32{3} f32{3} ignore_index=2", "f32{2,17} i64{2}<17 f32{2} f32{2} f32{2}"},
};
