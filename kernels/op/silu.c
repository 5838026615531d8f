/* silu.c - the sigmoid linear unit (swish), x * sigmoid(x). */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/math/vmath.h"
#include "kernels/cpu/math/vmath_f64.h"

extern const struct op op_silu_derivative;

REALS({
    if (x[0] == -INFINITY) return -0.0; /* special case, because -INFINITY * 0 would be NaN */
    return x[0] / (1 + exp(-x[0]));
});

static void
block(const struct call *c, int64_t n, const float *const *x, float *y)
{
    UNUSED(c);
    vec_silu(n, x[0], y);
}

static void
beside(const struct call *c, int64_t n, const float *x, float *y, float *derivative)
{
    UNUSED(c);
    vec_silu_both(n, x, y, derivative);
}

/* Builds dx = dy silu'(x). silu' is a separate operator, so that the gradient takes one pass. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_mul(b, dout[0], b_call1(b, &op_silu_derivative, n->in[0]));
}

const struct op op_silu = {
    .name = "silu",
    .doc = "y = x / (1 + e^-x)",
    .source = "Elfwing, Uchibe & Doya 2018",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .shape.dtype = OUT_FLOAT,
    .grad.build = grad,
    .grad.saves = "0",
    .eltwise = {.f = reals,
                .f_text = reals_text,
                .block_f32 = block,
                .block_f64 = f64_silu,
                .beside = &op_silu_derivative,
                .f32_beside = beside},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6}", "f32{7}", "f64{3}", "bf16{2,3}"},
};
