/* softplus.c - log(1 + e^x), a smooth form of relu whose slope is the logistic function. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/math/vmath.h"
#include "kernels/cpu/math/vmath_f64.h"

REALS({
    return (x[0] > 0 ? x[0] : 0) + log1p(exp(-fabs(x[0]))); /* the exponent is never positive, so it cannot overflow */
});

BLOCK(vec_softplus)

/* Builds dx = dy sigmoid(x). */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_mul(b, dout[0], b_sigmoid(b, n->in[0]));
}

const struct op op_softplus = {
    .name = "softplus",
    .doc = "y = log(1 + e^x)",
    .source = "Dugas et al. 2001",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .shape.dtype = OUT_FLOAT,
    .partial.increasing = "0",
    .grad.build = grad,
    .grad.saves = "0",
    .eltwise = {.f = reals, .f_text = reals_text, .block_f32 = block, .block_f64 = f64_softplus},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6}", "f64{3}", "bf16{2,3}"},
};
