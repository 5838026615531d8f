/* tanh.c - the hyperbolic tangent, element by element. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/math/vmath.h"
#include "kernels/cpu/math/vmath_f64.h"

REALS({ return tanh(x[0]); });

BLOCK(vec_tanh)

/* Builds dx = dy (1 - y^2). */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_mul(b, dout[0], b_sub(b, b_number(b, 1), b_square(b, n->out[0])));
}

const struct op op_tanh = {
    .name = "tanh",
    .doc = "y = tanh x",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .shape.dtype = OUT_FLOAT,
    .partial.increasing = "0",
    .grad.build = grad,
    .grad.saves = "a",
    .eltwise = {.f = reals, .f_text = reals_text, .block_f32 = block, .block_f64 = f64_tanh},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6}", "f32{7}", "f64{3}", "bf16{2,3}"},
};
