/* log_softmax.c - logarithms of softmax probabilities along one axis: x - log(sum of e^x).
 *
 * The maximum of a row is subtracted first, then the logarithm of the sum of e^(x - maximum). Both are subtracted
 * one after the other, because their rounded sum would lose the digits of the logarithm if the maximum is large. */
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
        double max = -INFINITY, sum = 0;
        for (int64_t i = 0; i < l.size; i++) max = fmax(max, x[i * l.inner]);
        for (int64_t i = 0; i < l.size; i++) sum += exp(x[i * l.inner] - max);
        for (int64_t i = 0; i < l.size; i++) f64_of(&k->out[0])[at + i * l.inner] = x[i * l.inner] - max - log(sum);
    }
    return 0;
}

/* ---- variant: lines ---- */

/* Computes `count` lines together. {3072, 64} on one core of an EPYC takes 74 us; line by line 112 us. */
static void
some_lines(const struct kcall *k, const struct reals *f, int64_t r, int64_t n, void *const *at, int64_t count)
{
    double max[LINES_TOGETHER], log_sum[LINES_TOGETHER];
    int64_t bytes = n * (int64_t)compute_bytes(compute_of((enum dtype)k->in[0].dtype));
    const char *x = at[0];
    char *y = at[1];
    UNUSED(r);
    for (int64_t l = 0; l < count; l++) max[l] = f->max(n, x + l * bytes);
    f->exp_sums(n, count, x, max, log_sum);
    f->logs(count, log_sum);
    for (int64_t l = 0; l < count; l++) f->minus(n, x + l * bytes, max[l], log_sum[l], y + l * bytes);
}

static bool
lines(const struct kcall *k, struct line_call *c)
{
    *c = line_map(&k->in[0], &k->out[0], (int)k->call->attr[AXIS].i, NULL);
    c->some = some_lines;
    return true;
}

/* Builds dx = dy - exp(y) * sum(dy). */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    int64_t axis = n->attr[AXIS].i;
    if (b_wants(n, 0)) din[0] = b_sub(b, dout[0], b_mul(b, b_exp(b, n->out[0]), b_sum(b, dout[0], &axis, 1, true)));
}

/* Builds the call for a split axis: shards compute e^(x - m), and exchange only the maximum m and the sum of each
 * line. 16-bit floats are computed in f32. */
static int
split_form(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    int64_t axis = c->attr[AXIS].i;
    if (!is_cut(c, 0, (int)axis) || type_numel(&c->in[0]) == 0) return 0;
    struct val *x = b_wide(b, in[0]);
    struct val *m = b_line_max(b, x, axis), *y = b_sub(b, x, m);
    out[0] = b_narrow(b, b_sub(b, y, b_log(b, b_line_exp_sum(b, x, m, axis))), &c->in[0]);
    return b->failed ? (int)err_last() : 0;
}

static const char line[] = BODY({
    const auto x = held([&](element i) { return x0(i); });
    const real most = fold<greatest>((double)-INFINITY, x);
    const real rest = log(fold<sums>(0.0, [&](element i) { return exp(x(i) - most); }));
    each_of([&](element i) { return x(i) - most - rest; }, [&](element i, real v) { y0(i, v); });
});

const struct op op_log_softmax = {
    .name = "log_softmax",
    .doc = "y[i] = x[i] - log sum over i of exp x[i], along axis",
    .in = {{"x", IN_FLOAT}},
    .attr = {[AXIS] = {"axis", ATTR_INT, ATTR_AXIS, .i = -1, .doc = "dimension of the classes"}},
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
    .sample = {"f32{4,6}", "f32{2,3,5} axis=1", "f32{2,17}", "bf16{4,7} axis=0"},
};
