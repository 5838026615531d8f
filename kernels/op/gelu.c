/* gelu.c - the Gaussian error linear unit: exact, or its approximation with tanh. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/math/vmath.h"
#include "kernels/cpu/math/vmath_f64.h"

extern const struct op op_gelu_derivative;

enum { APPROXIMATE };
enum { APPROXIMATE_NONE, APPROXIMATE_TANH };

REALS({
    const real half = 0.5, root = M_SQRT1_2, scale = sqrt(2 / M_PI), cubic = 0.044715;
    real v = x[0];
    if (v == -INFINITY) return -0.0; /* special case, because -INFINITY * 0 would be NaN */
    if (c->attr[APPROXIMATE].i == APPROXIMATE_NONE) return half * v * erfc(-v * root);
    return half * v * (1 + tanh(scale * (v + cubic * v * v * v)));
});

static void
block(const struct call *c, int64_t n, const float *const *x, float *y)
{
    if (c->attr[APPROXIMATE].i == APPROXIMATE_NONE)
        vec_gelu(n, x[0], y);
    else
        vec_gelu_tanh(n, x[0], y);
}

static void
beside(const struct call *c, int64_t n, const float *x, float *y, float *derivative)
{
    if (c->attr[APPROXIMATE].i == APPROXIMATE_NONE)
        vec_gelu_both(n, x, y, derivative);
    else
        vec_gelu_tanh_both(n, x, y, derivative);
}

static enum follow
follow(const struct call *c)
{
    return c->attr[APPROXIMATE].i == APPROXIMATE_TANH ? FOLLOW_GELU : FOLLOW_NONE;
}

/* Builds dx = dy gelu'(x). gelu' is a separate operator, so that the gradient takes one pass. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_mul(b, dout[0], b_call(b, &op_gelu_derivative, 1, n->in, n->attr));
}

const struct op op_gelu = {
    .name = "gelu",
    .doc = "y = x Phi(x), Phi the normal distribution; tanh: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))",
    .source = "Hendrycks & Gimpel 2016",
    .in = {{"x"}},
    .attr = {[APPROXIMATE] = {"approximate", ATTR_TEXT, .text = "none|tanh", .doc = "\"none\": the exact function"}},
    .shape.make_rule = rule_same,
    .shape.dtype = OUT_FLOAT,
    .grad.build = grad,
    .grad.saves = "0",
    .eltwise = {.f = reals,
                .f_text = reals_text,
                .block_f32 = block,
                .block_f64 = f64_gelu,
                .beside = &op_gelu_derivative,
                .f32_beside = beside,
                .follow = follow},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6}", "f32{7} approximate=tanh", "f64{3}", "bf16{2,3} approximate=tanh"},
};
