/* rms_norm.c - divides the last dimensions by their root mean square, then multiplies them by the weight. */
#include "kernels/op/lib/norm.h"

#include <float.h>
#include <string.h>

static int
ref(const struct kcall *k)
{
    return norm_ref(k, false);
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    return norm_run(k, false);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    norm_grad(b, n, dout, din, false);
}

/* Sets the default of eps to the machine epsilon of the dtype that is computed in, as PyTorch does: f64 for f64,
 * else f32. */
static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    enum { EPS = 1 };
    if (c->attr[EPS].set || c->in[0].dtype != DT_F64) return 0;
    struct attr attr[OP_ATTR];
    memcpy(attr, c->attr, sizeof *attr * (size_t)op_nattr(c->op));
    attr[EPS] = (struct attr){.set = true, .f = DBL_EPSILON};
    out[0] = b_call(b, c->op, c->nin, in, attr);
    return b->failed ? (int)err_last() : 0;
}

static int
split_form(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    return norm_parts(b, c, in, out, false);
}

static const struct kernel_variant variants[] = {{"simd", .dense_in = true, .accepts = norm_accepts, .run = run},
                                                 {NULL}};

static const char line[] = BODY({
    const auto x = held([&](element i) { return x0(i); });
    const double squares = fold_squares(x);
    const real rstd = 1 / sqrt(squares / n + c->attr[EPS].f);
    const bool weight = !absent(&c->in[1]);
    each_of(
        [&](element i) {
            const real v = x(i) * rstd;
            return weight ? v * (real)x1(i) : v;
        },
        [&](element i, real v) { y0(i, v); });
});

const struct op op_rms_norm = {
    .name = "rms_norm",
    .doc = "y = x / sqrt(mean of x^2 + eps) * weight, over the last dimensions",
    .errors = "weight must have the sizes of the last dimensions of x; normalized_shape must be these sizes",
    .source = "Zhang & Sennrich 2019",
    .in = {{"x", IN_FLOAT}, {"weight", IN_FLOAT | IN_OPTIONAL}},
    .attr = {{"normalized_shape", ATTR_INTS, .doc = "sizes of the dimensions; default: the weight's, else the last"},
             {"eps", ATTR_FLOAT, .f = FLT_EPSILON,
              .doc = "added to the mean of squares; default: f32's epsilon, 2^-23"}},
    .shape.make_rule = norm_rule,
    .shape.infer = norm_infer,
    .shape.dtype = OUT_IN0,
    .partial.linear = "1",
    .build = build,
    .grad.build = grad,
    .split_form = split_form,
    .grad.saves = "01",
    .host.ref = ref,
    .gpu.line = line,
    .gpu.line_dims = norm_line_dims,
    .host.kernel = variants,
    .flags = OP_WIDE | OP_LEADS,
    .sample = {"f32{4,6} f32{6}", "f32{2,3,5}", "f32{2,3,5} f32{3,5}", "bf16{3,17} bf16{17}"},
};
