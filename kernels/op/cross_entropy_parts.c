/* cross_entropy_parts.c - the two sums of cross_entropy for split classes. Each rank sums over the classes that it
 * holds; the total is the sum over the ranks.
 *
 *   sum = sum over c of exp(x[c] - m),  at = sum over c of t[c] (x[c] - m);   loss = log sum - at
 *
 * With smoothing s and C classes, the target t is 1 - s at the label, plus s / C everywhere. Both sums are 0 if
 * the label is ignored. m must be at least the greatest logit of the position, so that no exponential overflows. m
 * is subtracted from each logit before the exponentials are added. If m were subtracted from the ranks' sum
 * instead, the partial sums would be as large as m and lose the digits of the difference. */
#include "kernels/op/cross_entropy.h"
#include "kernels/op/cross_entropy_rows.h"

#include <math.h>

extern const struct op op_cross_entropy_parts_grad, op_ne;

enum { X, LABELS, M };

static int
rule(const struct call *c, struct str *rule)
{
    return ce_rule(c, false, "x,l,l->l,l", rule);
}

static int
ref(const struct kcall *k)
{
    const struct view *x = &k->in[X];
    int axis = ce_axis(x->ndim);
    struct lines l = lines_of(x, axis);
    double s = k->call->attr[CE_SMOOTHING].f, spread = s / (double)x->global[axis];
    lookup_find(k);
    for (int64_t r = 0; r < l.outer * l.inner; r++) {
        int64_t label = i64_of(&k->in[LABELS])[r], here = lookup_here(label, x->offset[axis], l.size);
        const double *line = f64_of(x) + r / l.inner * l.size * l.inner + r % l.inner;
        double m = f64_of(&k->in[M])[r], sum = 0, at = 0;
        for (int64_t c = 0; c < l.size && ce_counts(k, label, x->global[axis]); c++) {
            double less = line[c * l.inner] - m;
            sum += exp(less);
            if (c == here) at += (1 - s) * less;
            if (s) at += spread * less;
        }
        f64_of(&k->out[0])[r] = sum;
        f64_of(&k->out[1])[r] = at;
    }
    return 0;
}

/* ---- variant: lines of classes ---- */

static void
one_line(const struct kcall *k, const struct reals *f, int64_t r, int64_t n, void *const *line)
{
    const struct view *x = &k->in[X], *labels = &k->in[LABELS];
    int axis = ce_axis(x->ndim);
    int64_t label = elem_get_i((enum dtype)labels->dtype, labels->data, r);
    int64_t here = lookup_here(label, x->offset[axis], n);
    double s = k->call->attr[CE_SMOOTHING].f, m = line_get(&k->in[M], r), sum = 0, at = 0;
    if (ce_counts(k, label, x->global[axis])) {
        sum = f->exp_sum(n, line[0], m, NULL);
        if (s) at = s / (double)x->global[axis] * f->sum(n, line[0], m);
        if (here >= 0) at += (1 - s) * (line_at(x, line[0], here) - m);
    }
    line_put(&k->out[0], r, sum);
    line_put(&k->out[1], r, at);
}

static bool
lines(const struct kcall *k, struct line_call *c)
{
    *c = (struct line_call){
        .l = lines_of(&k->in[X], ce_axis(k->in[X].ndim)), .nview = 1, .view = {&k->in[X]}, .one = one_line};
    return true;
}

static int
run(const struct kcall *k, const void *state)
{
    lookup_find(k);
    return lines_run(k, state);
}

/* Builds the gradients of x and m. t sums to 1 over all classes, so the derivative of `at` by m is -1. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *labels = n->in[LABELS], *counts = ce_which_count(b, labels, n->attr[CE_IGNORE].i);
    struct val *zeros = b_cast(b, b_call2(b, &op_ne, labels, labels), n->out[0]->type.dtype);
    struct val *dsum = dout[0] ? dout[0] : zeros, *dat = dout[1] ? dout[1] : zeros;
    struct val *in[] = {n->in[X], labels, n->in[M], dsum, dat};
    if (b_wants(n, X)) din[X] = b_call(b, &op_cross_entropy_parts_grad, 5, in, n->attr);
    if (!b_wants(n, M)) return;
    struct val *dm = b_neg(b, b_add(b, b_mul(b, dsum, n->out[0]), dat));
    din[M] = b_cast(b, b_where(b, counts, dm, b_number(b, 0)), n->in[M]->type.dtype);
}

static const struct kernel_variant variants[] = {
    {"lines", .dense_in = true, .accepts = lines_accepts, .prepare = lines_prepare, .run = run}, {NULL}};

static const char line[] = CE_LINE({
    const double m = x2(0), s = c->attr[LABEL_SMOOTHING].f;
    const double sum = fold<sums>(0.0, [&](element i) { return exp((real)(x0(i) - m)); });
    const double below = s ? fold<sums>(0.0, [&](element i) { return x0(i) - m; }) : 0;
    once([&] {
        const double target = here >= 0 && here < n ? (1 - s) * (x0(here) - m) : 0;
        y0(0, counts ? sum : 0);
        y1(0, counts ? target + (s ? s / classes * below : 0) : 0);
    });
});

const struct op op_cross_entropy_parts = {
    .name = "cross_entropy_parts",
    .doc = "sum = sum of exp(logits - m), at = sum of target (logits - m), at each position",
    .in = {[X] = {"logits", IN_FLOAT}, [LABELS] = {"labels", IN_INDEX}, [M] = {"m", IN_FLOAT}},
    .nout = 2,
    .attr = {CE_ATTRS},
    .shape.make_rule = rule,
    .shape.infer = ce_infer,
    .partial.reduce = RED_SUM,
    .grad.build = grad,
    .grad.saves = "012a",
    .host.ref = ref,
    .gpu.line = line,
    .gpu.line_dims = ce_line_dims,
    .gpu.by_position = 1 << LABELS,
    .host.allows = ce_allows,
    .host.lines = lines,
    .host.kernel = variants,
    .host.say = ce_say,
    .flags = OP_HIDDEN,
    .sample = {"f32{4,6} i64{4}<6 f32{4}>2", "f32{2,5,3} i32{2,3}<5 f32{2,3}>2 label_smoothing=0.25",
               "bf16{3,4} i64{3}<4 bf16{3}>2 ignore_index=2", "f32{7} i64{}<7 f32{}>2", "f32{2,17} i64{2}<17 f32{2}>2"},
};
