/* cross_entropy_rows.c - the loss of each position for unsplit classes, and the logarithm of the sum of exponentials
 * as two numbers, m and rest.
 *
 *   m = max over c of x[c], rest = log sum over c of exp(x[c] - m);   with smoothing s and C classes:
 *   loss = rest - (1 - s) (x[label] - m) - s / C sum over c of (x[c] - m);   all 0 if the label is ignored
 *
 * A row is read once for the loss and for both numbers. m and rest are kept for the gradient, which then reads the
 * row once more. They are two numbers because the rounded sum m + rest would lose the digits of rest if m is
 * large. */
#include "kernels/op/cross_entropy_rows.h"
#include "kernels/op/cross_entropy.h"

#include <math.h>

extern const struct op op_cross_entropy_grad, op_eq, op_ne;

int
ce_rule(const struct call *c, bool unsplit, const char *pattern, struct str *rule)
{
    int n = c->in[0].ndim, axis = ce_axis(n);
    for (const char *p = pattern; *p; p++) {
        bool x = *p == 'x', labels = *p == 'l';
        if (!x && !labels) str_addf(rule, "%c", *p);
        for (int d = 0; d < n && (x || labels); d++)
            if (d != axis)
                str_addf(rule, "%c", letter(d));
            else if (x)
                str_add(rule, unsplit ? "[V]" : "V");
    }
    return 0;
}

void
ce_line_dims(const struct call *c, bool *gone)
{
    gone[ce_axis(c->in[0].ndim)] = true;
}

void
ce_allows(const struct kcall *k, struct allowed *a)
{
    uint64_t nclass = (uint64_t)k->in[0].global[ce_axis(k->in[0].ndim)];
    *a = (struct allowed){.operand = 1, .count = nclass, .also = &k->call->attr[CE_IGNORE].i};
}

int
ce_say(const struct kcall *k, const struct finding *f)
{
    static const struct lookup_words words = {"cross_entropy", "label", "one of ", " classes"};
    return lookup_say(k, 1, k->in[0].global[ce_axis(k->in[0].ndim)], &words, f);
}

static int
rule(const struct call *c, struct str *rule)
{
    return ce_rule(c, true, "x,l->l,l,l", rule);
}

int
ce_infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    enum dtype d = c->in[0].dtype == DT_F64 ? DT_F64 : DT_F32;
    for (int i = 0; i < c->nout; i++) c->out[i].dtype = (uint8_t)d;
    return 0;
}

static double
loss_of(const struct attr *attr, double rest, double at_label, double sum, int64_t nclass)
{
    double s = attr[CE_SMOOTHING].f;
    return rest - (1 - s) * at_label - (s ? s / (double)nclass * sum : 0);
}

static int
ref(const struct kcall *k)
{
    const struct attr *attr = k->call->attr;
    struct lines l = lines_of(&k->in[0], ce_axis(k->in[0].ndim));
    lookup_find(k);
    const int64_t *label = i64_of(&k->in[1]);
    for (int64_t r = 0; r < l.outer * l.inner; r++) {
        const double *x = f64_of(&k->in[0]) + r / l.inner * l.size * l.inner + r % l.inner;
        double max = -INFINITY, exps = 0, sum = 0;
        for (int64_t c = 0; c < l.size; c++) max = fmax(max, x[c * l.inner]);
        for (int64_t c = 0; c < l.size; c++) exps += exp(x[c * l.inner] - max), sum += x[c * l.inner] - max;
        bool counts = ce_counts(k, label[r], l.size);
        f64_of(&k->out[0])[r] = counts ? loss_of(attr, log(exps), x[label[r] * l.inner] - max, sum, l.size) : 0;
        f64_of(&k->out[1])[r] = counts ? max : 0;
        f64_of(&k->out[2])[r] = counts ? log(exps) : 0;
    }
    return 0;
}

/* ---- variant: lines of classes ---- */

static void
one_line(const struct kcall *k, const struct reals *f, int64_t r, int64_t n, void *const *at)
{
    const struct attr *attr = k->call->attr;
    const struct view *labels = &k->in[1];
    int64_t label = elem_get_i((enum dtype)labels->dtype, labels->data, r);
    double max = 0, rest = 0, loss = 0;
    if (ce_counts(k, label, n)) {
        rest = log(f->max_exp_sum(n, at[0], &max));
        double below = attr[CE_SMOOTHING].f ? f->sum(n, at[0], max) : 0;
        loss = loss_of(attr, rest, line_at(&k->in[0], at[0], label) - max, below, n);
    }
    line_put(&k->out[0], r, loss);
    line_put(&k->out[1], r, max);
    line_put(&k->out[2], r, rest);
}

static bool
lines(const struct kcall *k, struct line_call *c)
{
    *c = (struct line_call){
        .l = lines_of(&k->in[0], ce_axis(k->in[0].ndim)), .nview = 1, .view = {&k->in[0]}, .out = 0, .one = one_line};
    return true;
}

struct val *
ce_which_count(struct build *b, struct val *labels, int64_t ignored)
{
    return b_call2(b, &op_ne, labels, b_integer(b, ignored));
}

struct val *
ce_softmax(struct build *b, struct val *x, struct val *max, struct val *rest, struct val *counts)
{
    int axis = ce_axis(x->type.ndim);
    struct val *y = b_sub(b, b_sub(b, x, b_unsqueeze(b, max, axis)), b_unsqueeze(b, rest, axis));
    return b_exp(b, b_where(b, b_unsqueeze(b, counts, axis), y, b_number(b, -INFINITY)));
}

/* Builds the gradient of x from the gradients of m and rest. If m and rest have one gradient g (the program only
 * uses m + rest), the gradient of x is softmax(x) * g. Otherwise the difference of the two gradients is added at
 * the maximum. */
static struct val *
through_sum(struct build *b, const struct node *n, struct val *const *dout)
{
    struct val *x = n->in[0], *max = n->out[1], *dmax = dout[1], *drest = dout[2], *dx = NULL;
    if (!dmax && !drest) return NULL;
    int axis = ce_axis(x->type.ndim);
    struct val *counts = ce_which_count(b, n->in[1], n->attr[CE_IGNORE].i);
    if (drest) dx = b_mul(b, ce_softmax(b, x, max, n->out[2], counts), b_unsqueeze(b, drest, axis));
    if (dmax == drest) return dx;
    struct val *more = !drest ? dmax : !dmax ? b_neg(b, drest) : b_sub(b, dmax, drest);
    struct val *greatest = b_call2(b, &op_eq, x, b_unsqueeze(b, max, axis));
    more = b_where(b, counts, more, b_number(b, 0));
    struct val *at_greatest = b_mul(b, b_cast(b, greatest, more->type.dtype), b_unsqueeze(b, more, axis));
    return dx ? b_add(b, dx, at_greatest) : at_greatest;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *x = n->in[0];
    if (!b_wants(n, 0)) return;
    struct val *in[] = {x, n->in[1], n->out[1], n->out[2], dout[0]};
    if (dout[0]) din[0] = b_call(b, &op_cross_entropy_grad, 5, in, n->attr);
    struct val *through = b_narrow(b, through_sum(b, n, dout), &x->type);
    if (through) din[0] = din[0] ? b_add(b, din[0], through) : through;
}

static int
run(const struct kcall *k, const void *state)
{
    lookup_find(k);
    return lines_run(k, state);
}

static const struct kernel_variant variants[] = {
    {"lines", .dense_in = true, .accepts = lines_accepts, .prepare = lines_prepare, .run = run}, {NULL}};

static const char line[] = BODY({
    const int64_t label = x1(0);
    const double s = c->attr[LABEL_SMOOTHING].f;
    const bool counts = label != c->attr[IGNORE_INDEX].i && label >= 0 && label < n;
    double most;
    double sum;
    fold_exponentials<real>([&](element i) { return x0(i); }, &most, &sum);
    const double rest = log(sum);
    const double below = s ? fold<sums>(0.0, [&](element i) { return x0(i) - most; }) : 0;
    once([&] {
        y0(0, counts ? rest - (1 - s) * (x0(label) - most) - (s ? s / n * below : 0) : 0);
        y1(0, counts ? most : 0);
        y2(0, counts ? rest : 0);
    });
});

const struct op op_cross_entropy_rows = {
    .name = "cross_entropy_rows",
    .doc = "loss = -log softmax(logits)[label] at each position; and m, log sum exp(logits - m)",
    .in = {{"logits", IN_FLOAT}, {"labels", IN_INDEX}},
    .nout = 3,
    .attr = {CE_ATTRS},
    .shape.make_rule = rule,
    .shape.infer = ce_infer,
    .grad.build = grad,
    .grad.saves = "01bc",
    .host.ref = ref,
    .gpu.line = line,
    .gpu.line_dims = ce_line_dims,
    .host.allows = ce_allows,
    .host.lines = lines,
    .host.kernel = variants,
    .host.say = ce_say,
    .gpu.halves = 1,
    .flags = OP_HIDDEN,
    .sample = {"f32{4,6} i64{4}<6", "f32{2,5,3} i32{2,3}<5 label_smoothing=0.25", "f32{7} i64{}<7",
               "bf16{3,4} i64{3}<4 ignore_index=2", "f32{2,17} i64{2}<17"},
};
