/* cross_entropy_parts_grad.c - the gradient of cross_entropy_parts for the classes that a rank holds, in one pass.
 *
 *   dx[c] = exp(x[c] - m) dsum + t[c] dat
 *
 * x: logits. m: the number that cross_entropy_parts subtracted from the logits. dsum, dat: gradients of its results
 * `sum` and `at`. With smoothing s and C classes, the target t is 1 - s at the label, plus s / C everywhere. dx is 0
 * if the label is ignored. */
#include "kernels/op/cross_entropy.h"
#include "kernels/op/cross_entropy_rows.h"

#include <math.h>
#include <string.h>

extern const struct op op_cross_entropy_parts_grad, op_eq;

enum { X, LABELS, M, DSUM, DAT };

static int
rule(const struct call *c, struct str *rule)
{
    return ce_rule(c, false, "x,l,l,l,l->x", rule);
}

static int
ref(const struct kcall *k)
{
    const struct view *x = &k->in[X];
    int axis = ce_axis(x->ndim);
    struct lines l = lines_of(x, axis);
    double s = k->call->attr[CE_SMOOTHING].f, spread = s / (double)x->global[axis];
    for (int64_t r = 0; r < l.outer * l.inner; r++) {
        int64_t label = i64_of(&k->in[LABELS])[r], first = r / l.inner * l.size * l.inner + r % l.inner;
        bool counts = ce_counts(k, label, x->global[axis]);
        for (int64_t c = 0; c < l.size; c++) {
            int64_t i = first + c * l.inner;
            double t = (c + x->offset[axis] == label ? 1 - s : 0) + spread;
            double p = exp(f64_of(x)[i] - f64_of(&k->in[M])[r]) * f64_of(&k->in[DSUM])[r];
            f64_of(&k->out[0])[i] = counts ? p + (t ? t * f64_of(&k->in[DAT])[r] : 0) : 0;
        }
    }
    return 0;
}

/* ---- variant: lines of classes ---- */

/* Computes one line of the gradient. The element of the label is computed in f64, so that the sum of its two terms is
 * rounded once. */
static void
one_line(const struct kcall *k, const struct reals *f, int64_t r, int64_t n, void *const *line)
{
    const struct view *x = &k->in[X], *labels = &k->in[LABELS];
    int axis = ce_axis(x->ndim);
    int64_t label = elem_get_i((enum dtype)labels->dtype, labels->data, r);
    int64_t here = lookup_here(label, x->offset[axis], n);
    double dsum = line_get(&k->in[DSUM], r), dat = line_get(&k->in[DAT], r), m = line_get(&k->in[M], r);
    double s = k->call->attr[CE_SMOOTHING].f, spread = s / (double)x->global[axis];
    if (!ce_counts(k, label, x->global[axis])) {
        memset(line[1], 0, (size_t)n * compute_bytes(compute_of((enum dtype)x->dtype)));
        return;
    }
    double own = here < 0 ? 0 : exp(line_at(x, line[0], here) - m) * dsum + (1 - s + spread) * dat;
    f->exps(n, line[0], m, 0, dsum, line[1]);
    if (spread) f->affine(n, 1, line[1], spread * dat, line[1]);
    if (here >= 0) line_set(x, line[1], here, own);
}

static bool
lines(const struct kcall *k, struct line_call *c)
{
    *c = line_map(&k->in[X], &k->out[0], ce_axis(k->in[X].ndim), one_line);
    return true;
}

/* Builds h * dx, where dx is this operator's result for the gradients dsum and dat. If dsum or dat is NULL, its term
 * is left out. */
static struct val *
times(struct build *b, const struct node *n, struct val *h, struct val *dsum, struct val *dat)
{
    struct val *in[] = {b_wide(b, n->in[X]), n->in[LABELS], n->in[M], dsum, dat};
    return dsum && dat ? b_mul(b, h, b_call(b, &op_cross_entropy_parts_grad, 5, in, n->attr)) : NULL;
}

/* Builds the gradient of this operator. h: gradient of dx; p = exp(x - m); t: target; sums are over the classes.
 * d/dx = h * p * dsum; d/dm = -sum(h * p * dsum); d/ddsum = sum(h * p); d/ddat = sum(h * t). Where the label counts,
 * `ones` is 1 and `zeros` is 0; elsewhere they are not used. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    int64_t axis = ce_axis(n->in[X]->type.ndim), ignored = n->attr[CE_IGNORE].i;
    struct val *h = b_wide(b, dout[0]), *dsum = n->in[DSUM], *dat = n->in[DAT];
    struct val *ones = b_cast(b, ce_which_count(b, n->in[LABELS], ignored), dsum->type.dtype);
    struct val *zeros = b_cast(b, b_call2(b, &op_eq, n->in[LABELS], b_integer(b, ignored)), dsum->type.dtype);
    if (b_wants(n, X) || b_wants(n, M)) {
        struct val *hp = times(b, n, h, dsum, zeros);
        din[X] = b_narrow(b, hp, &n->in[X]->type);
        din[M] = b_cast(b, b_neg(b, b_sum(b, hp, &axis, 1, false)), n->in[M]->type.dtype);
    }
    if (b_wants(n, DSUM))
        din[DSUM] = b_cast(b, b_sum(b, times(b, n, h, ones, zeros), &axis, 1, false), dsum->type.dtype);
    if (b_wants(n, DAT)) din[DAT] = b_cast(b, b_sum(b, times(b, n, h, zeros, ones), &axis, 1, false), dat->type.dtype);
}

static const char line[] = CE_LINE({
    const double m = x2(0), dsum = x3(0), dat = x4(0), s = c->attr[LABEL_SMOOTHING].f;
    each([&](element i) {
        const double p = exp((real)(x0(i) - m)), t = (i == here ? 1 - s : 0) + s / classes;
        y0(i, counts ? p * dsum + (t ? t * dat : 0) : 0);
    });
});

const struct op op_cross_entropy_parts_grad = {
    .name = "cross_entropy_parts_grad",
    .doc = "dx = exp(logits - m) dsum + target dat at each position",
    .in = {[X] = {"logits", IN_FLOAT},
           [LABELS] = {"labels", IN_INDEX},
           [M] = {"m", IN_FLOAT},
           [DSUM] = {"dsum", IN_FLOAT},
           [DAT] = {"dat", IN_FLOAT}},
    .attr = {CE_ATTRS},
    .shape.make_rule = rule,
    .shape.dtype = OUT_IN0,
    .partial.linear = "34",
    .grad.build = grad,
    .grad.saves = "0123",
    .host.ref = ref,
    .gpu.line = line,
    .gpu.line_dims = ce_line_dims,
    .gpu.by_position = 1 << LABELS,
    .host.lines = lines,
    .host.kernel = lines_variants,
    .flags = OP_HIDDEN,
    .sample = {"f32{4,6} i64{4}<6 f32{4}>2 f32{4} f32{4}",
               "f32{2,5,3} i32{2,3}<5 f32{2,3}>2 f32{2,3} f32{2,3} label_smoothing=0.25",
               "bf16{3,4} i64{3}<4 f32{3}>2 f32{3} f32{3} ignore_index=2", "f32{7} i64{}<7 f32{}>2 f32{} f32{}",
               "f32{2,17} i64{2}<17 f32{2}>2 f32{2} f32{2}"},
};
