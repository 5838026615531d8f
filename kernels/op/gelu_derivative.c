/* gelu_derivative.c - the derivative of gelu as a separate operator, so that gelu's gradient takes one pass. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/math/vmath.h"
#include "kernels/cpu/math/vmath_f64.h"

extern const struct op op_clamp;

enum { APPROXIMATE };
enum { APPROXIMATE_NONE, APPROXIMATE_TANH };

/* The tanh approximation of gelu is x s(v), where s is the logistic function and v = A (x + C x^3). */
static const double A = 1.59576912160573071176; /* 2 sqrt(2 / pi) */
static const double C = 0.044715;
static const double DENSITY = 0.39894228040143267794; /* density of the normal distribution at 0 */

REALS({
    /* The constants A, C and DENSITY, rounded to the dtype in which the body computes. */
    const real a = 1.59576912160573071176, b = 0.044715, density = 0.39894228040143267794;
    const real half = 0.5, root = M_SQRT1_2;
    /* Beyond +-40 the derivative is 1 or 0; without the clamp, inf * 0 would be NaN. */
    real v = x[0] > 40 ? 40 : x[0] < -40 ? -40 : x[0];
    if (c->attr[APPROXIMATE].i == APPROXIMATE_NONE) return half * erfc(-v * root) + v * density * exp(-half * v * v);
    real s = 1 / (1 + exp(-a * (v + b * v * v * v)));
    return s + v * s * (1 - s) * a * (1 + 3 * b * v * v);
});

static void
block(const struct call *c, int64_t n, const float *const *x, float *y)
{
    if (c->attr[APPROXIMATE].i == APPROXIMATE_NONE)
        vec_gelu_derivative(n, x[0], y);
    else
        vec_gelu_tanh_derivative(n, x[0], y);
}

static enum follow
follow(const struct call *c)
{
    return c->attr[APPROXIMATE].i == APPROXIMATE_TANH ? FOLLOW_GELU_SLOPE : FOLLOW_NONE;
}

/* Builds x clamped to [-most, most], in f32 for 16-bit floats. Beyond `most` the second derivative is 0, but without
 * the clamp a power of x may overflow, and inf * 0 is NaN. */
static struct val *
within(struct build *b, struct val *x, double most)
{
    return b_call3(b, &op_clamp, b_wide(b, x), b_number(b, -most), b_number(b, most));
}

/* Builds the second derivative of the exact gelu: (x Phi)'' = (2 - x^2) e^(-x^2 / 2) / sqrt(2 pi) */
static struct val *
curve_exact(struct build *b, struct val *x)
{
    struct val *xx = b_square(b, x);
    return b_mul(b, b_scale(b, b_sub(b, b_number(b, 2), xx), DENSITY), b_exp(b, b_scale(b, xx, -0.5)));
}

/* Builds the second derivative of the tanh approximation: (x s(v))'' = s' (2 v' + x ((1 - 2 s) v'^2 + v'')), with s'
 * = s(v) s(-v), v' = A (1 + 3 C x^2), v'' = 6 A C x */
static struct val *
curve_tanh(struct build *b, struct val *x)
{
    struct val *xx = b_square(b, x), *one = b_number(b, 1);
    struct val *v = b_scale(b, b_mul(b, x, b_shift(b, b_scale(b, xx, C), 1)), A), *s = b_sigmoid(b, v);
    struct val *v1 = b_scale(b, b_shift(b, b_scale(b, xx, 3 * C), 1), A), *v2 = b_scale(b, x, 6 * A * C);
    struct val *inner = b_add(b, b_mul(b, b_sub(b, one, b_scale(b, s, 2)), b_square(b, v1)), v2);
    struct val *slope = b_mul(b, s, b_sigmoid(b, b_scale(b, v, -1)));
    return b_mul(b, slope, b_add(b, b_scale(b, v1, 2), b_mul(b, x, inner)));
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0)) return;
    struct val *x = n->in[0];
    bool exact = n->attr[APPROXIMATE].i == APPROXIMATE_NONE;
    struct val *curve = exact ? curve_exact(b, within(b, x, 40)) : curve_tanh(b, within(b, x, 22));
    din[0] = b_mul(b, dout[0], b_narrow(b, curve, &x->type));
}

const struct op op_gelu_derivative = {
    .name = "gelu_derivative",
    .doc = "y = d gelu(x) / dx",
    .in = {{"x"}},
    .attr = {[APPROXIMATE] = {"approximate", ATTR_TEXT, .text = "none|tanh", .doc = "\"none\": the exact function"}},
    .shape.make_rule = rule_same,
    .shape.dtype = OUT_FLOAT,
    .grad.build = grad,
    .grad.saves = "0",
    .eltwise =
        {.f = reals, .f_text = reals_text, .block_f32 = block, .block_f64 = f64_gelu_derivative, .follow = follow},
    .flags = OP_ELTWISE | OP_HIDDEN,
    .sample = {"f32{4,6}", "f32{7} approximate=tanh", "f64{3}"},
};
