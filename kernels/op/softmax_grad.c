/* softmax_grad.c - the gradient of softmax: dx = y * (dy - sum(y * dy)), along one axis. */
#include "kernels/op/base/op_impl.h"

enum { AXIS };

static int
ref(const struct kcall *k)
{
    struct lines l = lines_of(&k->in[0], (int)k->call->attr[AXIS].i);
    for (int64_t r = 0; r < l.outer * l.inner; r++) {
        int64_t at = r / l.inner * l.size * l.inner + r % l.inner;
        const double *y = f64_of(&k->in[0]) + at, *dy = f64_of(&k->in[1]) + at;
        double sum = 0;
        for (int64_t i = 0; i < l.size; i++) sum += y[i * l.inner] * dy[i * l.inner];
        for (int64_t i = 0; i < l.size; i++)
            f64_of(&k->out[0])[at + i * l.inner] = y[i * l.inner] * (dy[i * l.inner] - sum);
    }
    return 0;
}

/* ---- variant: lines ---- */

static void
some_lines(const struct kcall *k, const struct reals *f, int64_t r, int64_t n, void *const *at, int64_t count)
{
    UNUSED(k);
    UNUSED(r);
    f->softmax_grads(n, count, at[0], at[1], at[2]);
}

static bool
lines(const struct kcall *k, struct line_call *c)
{
    *c = (struct line_call){.l = lines_of(&k->in[0], (int)k->call->attr[AXIS].i),
                            .nview = 3,
                            .view = {&k->in[0], &k->in[1], &k->out[0]},
                            .out = 4,
                            .some = some_lines};
    return true;
}

/* Builds the gradient of this operator. h: gradient of dx; sums are along the axis. d/ddy = y * (h - sum(h * y));
 * d/dy = h * (dy - sum(y * dy)) - dy * sum(h * y). */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *y = n->in[0], *dy = n->in[1], *h = dout[0];
    int64_t axis = n->attr[AXIS].i;
    if (b_wants(n, 1)) din[1] = b_softmax_grad(b, y, h, (int)axis);
    if (!b_wants(n, 0)) return;
    struct val *inner = b_sum(b, b_mul(b, y, dy), &axis, 1, true), *outer = b_sum(b, b_mul(b, h, y), &axis, 1, true);
    din[0] = b_sub(b, b_mul(b, h, b_sub(b, dy, inner)), b_mul(b, dy, outer));
}

static const char line[] = BODY({
    const auto y = held([&](element i) { return x0(i); });
    const auto g = held([&](element i) { return x1(i); });
    const real sum = fold<sums>(0.0, [&](element i) { return (double)y(i) * g(i); });
    each_of([&](element i) { return y(i) * (g(i) - sum); }, [&](element i, real v) { y0(i, v); });
});

const struct op op_softmax_grad = {
    .name = "softmax_grad",
    .doc = "dx = y (dy - sum over axis of y dy)",
    .in = {{"y", IN_FLOAT}, {"dy", IN_FLOAT}},
    .attr = {[AXIS] = {"axis", ATTR_INT, ATTR_AXIS, .i = -1, .doc = "dimension that sums to 1"}},
    .shape.make_rule = rule_keep_axis,
    .partial.linear = "1",
    .grad.build = grad,
    .grad.saves = "01",
    .host.ref = ref,
    .gpu.line = line,
    .host.lines = lines,
    .host.kernel = lines_variants,
    .flags = OP_HIDDEN | OP_UNPLACED | OP_LEADS,
    .sample = {"f32{4,6} f32{4,6}", "f32{2,3,5} f32{2,3,5} axis=1", "bf16{2,17} bf16{2,17}"},
};
