/* softmax.c - exponentials along one axis, divided by their sum.
 *
 * The axis stays unsplit; for a split axis the call becomes a composite. A row takes three passes while it is in the
 * cache: its maximum; exponentials and their sum; the division. Subtracting the maximum first prevents overflow. */
#include "kernels/op/base/op_impl.h"

#include <math.h>

enum { AXIS };

static int
ref(const struct kcall *k)
{
    struct lines l = lines_of(&k->in[0], (int)k->call->attr[AXIS].i);
    for (int64_t r = 0; r < l.outer * l.inner; r++) {
        int64_t at = r / l.inner * l.size * l.inner + r % l.inner;
        const double *x = f64_of(&k->in[0]) + at;
        double *y = f64_of(&k->out[0]) + at, max = -INFINITY, sum = 0;
        for (int64_t i = 0; i < l.size; i++) max = fmax(max, x[i * l.inner]);
        for (int64_t i = 0; i < l.size; i++) sum += y[i * l.inner] = exp(x[i * l.inner] - max);
        for (int64_t i = 0; i < l.size; i++) y[i * l.inner] /= sum;
    }
    return 0;
}

/* ---- variant: lines ---- */

static void
one_line(const struct kcall *k, const struct reals *f, int64_t r, int64_t n, void *const *at)
{
    UNUSED(k);
    UNUSED(r);
    double sum = f->exp_sum(n, at[0], f->max(n, at[0]), at[1]);
    f->affine(n, 1 / sum, at[1], 0, at[1]);
}

static bool
lines(const struct kcall *k, struct line_call *c)
{
    *c = line_map(&k->in[0], &k->out[0], (int)k->call->attr[AXIS].i, one_line);
    return true;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_softmax_grad(b, n->out[0], dout[0], (int)n->attr[AXIS].i);
}

/* Builds the call for a split axis: shards compute e^(x - m), and exchange only the maximum m and the sum of each
 * line. 16-bit floats are computed in f32. */
static int
split_form(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    int64_t axis = c->attr[AXIS].i;
    if (!is_cut(c, 0, (int)axis) || type_numel(&c->in[0]) == 0) return 0;
    struct val *x = b_wide(b, in[0]);
    struct val *m = b_line_max(b, x, axis), *y = b_exp(b, b_sub(b, x, m));
    out[0] = b_narrow(b, b_div(b, y, b_line_exp_sum(b, x, m, axis)), &c->in[0]);
    return b->failed ? (int)err_last() : 0;
}

static const char line[] = BODY({
    const auto x = held([&](element i) { return x0(i); });
    const real most = fold<greatest>((double)-INFINITY, x);
    const real sum = fold<sums>(0.0, [&](element i) { return exp(x(i) - most); });
    each_of([&](element i) { return exp(x(i) - most) / sum; }, [&](element i, real v) { y0(i, v); });
});

const struct op op_softmax = {
    .name = "softmax",
    .doc = "y[i] = exp x[i] / sum over i of exp x[i], along axis",
    .source = "Bridle 1990",
    .in = {{"x", IN_FLOAT}},
    .attr = {[AXIS] = {"axis", ATTR_INT, ATTR_AXIS, .i = -1, .doc = "dimension that sums to 1"}},
    .shape.make_rule = rule_keep_axis,
    .shape.dtype = OUT_IN0,
    .grad.build = grad,
    .split_form = split_form,
    .grad.saves = "a",
    .host.ref = ref,
    .gpu.line = line,
    .host.lines = lines,
    .host.kernel = lines_variants,
    .flags = OP_WIDE | OP_UNPLACED | OP_LEADS,
    .sample = {"f32{4,6}", "f32{2,3,5} axis=1", "f32{3,17}", "bf16{4,7} axis=0"},
};
