/* pow_derivative.c - derivatives of a^b with respect to a, for an exponent b that is one number. The k-th
 * derivative is a factor times a^(b-k). If the factor is 0, the derivative is 0, even at a = 0, where a^(b-k)
 * would not be finite. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/math/vmath_f64.h"

extern const struct op op_pow_derivative;

enum { ORDER };

REALS({
    real factor = 1;
    int64_t order = c->attr[ORDER].i;
    for (int64_t k = 0; k < order; k++) factor *= x[1] - (real)k;
    /* Subnormal numbers count as zeros, as in pow.c. */
    return factor == 0 ? 0 : factor * pow(x[0] == 0 ? 0 * x[0] : x[0], x[1] - (real)order);
});

static void
block(const struct call *c, int64_t n, const float *const *x, float *y)
{
    f32_by_f64(f64_pow_derivative_few, c, n, 2, x, y);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0)) return;
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_pow_derivative, attr);
    attr_int(&op_pow_derivative, attr, "order", n->attr[ORDER].i + 1);
    din[0] = b_mul(b, dout[0], b_call(b, &op_pow_derivative, 2, n->in, attr));
}

const struct op op_pow_derivative = {
    .name = "pow_derivative",
    .doc = "y = b (b - 1) ... (b - order + 1) a^(b - order)",
    .in = {{"a"}, {"b", IN_NUMBER}},
    .attr = {[ORDER] = {"order", ATTR_INT, .i = 1, .doc = "order of the derivative"}},
    .shape.make_rule = rule_broadcast,
    .shape.dtype = OUT_FLOAT,
    .grad.build = grad,
    .grad.saves = "0",
    .eltwise = {.f = reals, .f_text = reals_text, .block_f32 = block, .block_f64 = f64_pow_derivative},
    .flags = OP_ELTWISE | OP_HIDDEN,
    .sample = {"f32{4,6} #3", "f32{5}>0.2 #0.5 order=2"},
};
