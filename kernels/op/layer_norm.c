/* layer_norm.c - normalises the last dimensions to mean 0 and variance 1, then multiplies by the weight and adds the
 * bias. */
#include "kernels/op/lib/norm.h"

static int
ref(const struct kcall *k)
{
    return norm_ref(k, true);
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    return norm_run(k, true);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    norm_grad(b, n, dout, din, true);
}

/* Returns the operands in which the call is linear, for op_partial.linear: weight and bias together, or the weight
 * alone if there is no bias. The call is not linear in the bias alone, because the bias is added to another term. */
static const char *
linear_of(const struct call *c)
{
    if (absent(&c->in[1])) return NULL;
    return absent(&c->in[2]) ? "1" : "12";
}

static int
split_form(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    return norm_parts(b, c, in, out, true);
}

static const struct kernel_variant variants[] = {{"simd", .dense_in = true, .accepts = norm_accepts, .run = run},
                                                 {NULL}};

static const char line[] = BODY({
    const auto x = held([&](element i) { return x0(i); });
    const fine mean = splitting<real>::of(fold_near<sums>(0.0, x) / n);
    const auto d = [&](element i) { return minus(x(i), mean); };
    const real rstd = 1 / sqrt(fold_squares(d) / n + c->attr[EPS].f);
    const bool weight = !absent(&c->in[1]);
    each_of(
        [&](element i) {
            const real v = d(i) * rstd;
            return (weight ? v * (real)x1(i) : v) + (real)x2(i);
        },
        [&](element i, real v) { y0(i, v); });
});

const struct op op_layer_norm = {
    .name = "layer_norm",
    .doc = "y = (x - mean) / sqrt(variance + eps) * weight + bias, over the last dimensions",
    .errors = "weight and bias must have the sizes of the last dimensions of x; normalized_shape must be these sizes",
    .source = "Ba, Kiros & Hinton 2016",
    .in = {{"x", IN_FLOAT}, {"weight", IN_FLOAT | IN_OPTIONAL}, {"bias", IN_FLOAT | IN_OPTIONAL}},
    .attr = {{"normalized_shape", ATTR_INTS, .doc = "sizes of the dimensions; default: the weight's, else the last"},
             {"eps", ATTR_FLOAT, .f = 1e-5, .doc = "added to the variance"}},
    .shape.make_rule = norm_rule,
    .shape.infer = norm_infer,
    .shape.dtype = OUT_IN0,
    .partial.linear_of = linear_of,
    .partial.increasing = "2",
    .grad.build = grad,
    .split_form = split_form,
    .grad.saves = "01",
    .host.ref = ref,
    .gpu.line = line,
    .gpu.line_dims = norm_line_dims,
    .host.kernel = variants,
    .flags = OP_WIDE | OP_LEADS,
    .sample = {"f32{4,6} f32{6} f32{6}", "f32{2,3,5} - f32{5}", "f32{2,3,5} normalized_shape=3,5",
               "f32{3,17} f32{17} -", "bf16{4,7} bf16{7} bf16{7}"},
};
