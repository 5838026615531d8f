/* erf.c - the Gauss error function, element by element. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/math/vmath.h"
#include "kernels/cpu/math/vmath_f64.h"

REALS({ return erf(x[0]); });

BLOCK(vec_erf)

/* Builds dx = dy * 2 / sqrt(pi) * e^(-x^2). */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0)) return;
    struct val *e = b_exp(b, b_neg(b, b_square(b, n->in[0])));
    din[0] = b_mul(b, dout[0], b_scale(b, e, 1.12837916709551257390));
}

const struct op op_erf = {
    .name = "erf",
    .doc = "y = 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .shape.dtype = OUT_FLOAT,
    .partial.increasing = "0",
    .grad.build = grad,
    .grad.saves = "0",
    .eltwise = {.f = reals, .f_text = reals_text, .block_f32 = block, .block_f64 = f64_erf},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6}", "f32{7}", "f64{3}", "bf16{2,3}"},
};
