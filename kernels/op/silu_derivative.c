/* silu_derivative.c - the derivative of silu as a separate operator, so that silu's gradient takes one pass. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/math/vmath.h"
#include "kernels/cpu/math/vmath_f64.h"

extern const struct op op_clamp;

REALS({
    /* Beyond +-800 the sigmoid is 1 or 0; without the clamp, inf * 0 would be NaN. */
    real v = x[0] > 800 ? 800 : x[0] < -800 ? -800 : x[0];
    real e = exp(-fabs(v)), up = 1 / (1 + e), s = v < 0 ? e * up : up;
    return s * (1 + v * (v < 0 ? up : e * up));
});

static void
block(const struct call *c, int64_t n, const float *const *x, float *y)
{
    UNUSED(c);
    vec_silu_derivative(n, x[0], y);
}

/* Builds the second derivative: (x s)'' = s (1 - s) (2 + x (1 - 2 s)), s = sigmoid x. 16-bit floats are computed in
 * f32. x is clamped to +-110 (f64: 800), where the result is 0. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0)) return;
    double most = n->in[0] && n->in[0]->type.dtype == DT_F64 ? 800 : 110;
    struct val *x = b_call3(b, &op_clamp, b_wide(b, n->in[0]), b_number(b, -most), b_number(b, most));
    struct val *s = b_sigmoid(b, x), *slope = b_mul(b, s, b_sigmoid(b, b_scale(b, x, -1)));
    struct val *inner = b_sub(b, b_number(b, 1), b_scale(b, s, 2));
    struct val *curve = b_mul(b, slope, b_shift(b, b_mul(b, x, inner), 2));
    din[0] = b_mul(b, dout[0], b_narrow(b, curve, &n->in[0]->type));
}

const struct op op_silu_derivative = {
    .name = "silu_derivative",
    .doc = "y = d silu(x) / dx",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .shape.dtype = OUT_FLOAT,
    .grad.build = grad,
    .grad.saves = "0",
    .eltwise = {.f = reals, .f_text = reals_text, .block_f32 = block, .block_f64 = f64_silu_derivative},
    .flags = OP_ELTWISE | OP_HIDDEN,
    .sample = {"f32{4,6}", "f32{7}", "f64{3}"},
};
